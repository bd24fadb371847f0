import { createGuard, type Delivery, type GuardEvent } from '@onceward/core'
import { migrate } from '@onceward/postgres'
import { postgres } from '@onceward/testing/servers'
import { createEffects, DURABLE, decode, type Order, toDelivery } from '../load/effects.ts'
import { processed, warm } from '../load/round-guard.ts'
import type { ConnectedContestant, OrmContestant } from '../orms/contestant.ts'
import { drizzleContestant, drizzlePostgresJsContestant } from '../orms/drizzle.ts'
import { knexContestant } from '../orms/knex.ts'
import { mikroOrmContestant } from '../orms/mikro-orm.ts'
import { postgresJsContestant } from '../orms/postgres-js.ts'
import { prismaContestant } from '../orms/prisma.ts'
import { typeormContestant } from '../orms/typeorm.ts'
import { withPool } from '../rivals/database.ts'
import { QUIET } from '../runner/observer.ts'
import type { Benchmark } from '../runner/report.ts'
import {
  alternate,
  CONCURRENCY,
  type Contestant,
  inLanes,
  median,
  ratioOf,
} from '../runner/rounds.ts'
import type { Scale } from '../runner/scale.ts'

const CONTESTANTS: readonly OrmContestant[] = [
  knexContestant,
  drizzleContestant,
  drizzlePostgresJsContestant,
  postgresJsContestant,
  prismaContestant,
  typeormContestant,
  mikroOrmContestant,
]

/** The guard in each ORM's transaction, beside the same ORM with the key in a table of its own by hand. */
export async function ormsBenchmark(scale: Scale): Promise<Benchmark> {
  await using server = await postgres({ settings: DURABLE })
  const values: Record<string, number> = {}
  const ratios: Record<string, number> = {}
  for (const { connect, name } of CONTESTANTS) {
    const url = await server.createDatabase()
    await withPool(url, async (pool) => {
      await migrate(pool)
      await createEffects(pool)
    })
    const orm = await connect(url, CONCURRENCY + 2)
    const guarded = `${name}, guarded`
    const byHand = `${name}, by hand`
    const rates = await alternate(contestants(orm, { guarded, byHand }), {
      ...scale,
      rounds: scale.rivalRounds,
    })
    await orm.close()
    for (const [contestant, rounds] of rates) values[contestant] = median(rounds)
    ratios[name] = ratioOf(rates, guarded, byHand)
  }
  const goals = CONTESTANTS.map(({ name }) => ({ name, least: 0.85 }))
  return { name: 'orms', unit: 'events/s', values, ratios, goals }
}

function contestants(
  { byHand, inbox, write }: ConnectedContestant,
  names: { readonly guarded: string; readonly byHand: string },
): readonly Contestant[] {
  const inRound = async (events: number, work: (delivery: Delivery) => Promise<unknown>) => {
    await warm(work)
    const deliveries = Array.from({ length: events }, toDelivery)
    return () => inLanes(deliveries, CONCURRENCY, async (each) => void (await work(each)))
  }
  return [
    {
      name: names.guarded,
      prepare: async (events) => {
        const guard = createGuard<unknown, unknown, Order>(
          { consumer: 'bench', inbox, concurrency: CONCURRENCY, logger: QUIET },
          async ({ payload }: GuardEvent<Order>, { tx }) => void (await write(tx, payload)),
        )
        const timed = await inRound(events, (delivery) => processed(guard, delivery))
        return async () => {
          await timed()
          void guard.close()
        }
      },
    },
    {
      name: names.byHand,
      prepare: (events) => inRound(events, (delivery) => byHand(decode(delivery))),
    },
  ]
}
