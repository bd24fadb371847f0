import {
  type PostgresServer,
  postgres,
  type Server,
  type SqsConnection,
  sqs,
} from '@onceward/testing'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createSqsQueue } from '../../brokers/sqs/queue.ts'
import { createDice, type Dice } from '../../support/dice.ts'
import { effectsReach, everythingOnce, orders } from '../../support/effects.ts'
import { TestStage } from '../../support/test-stage.ts'
import { Crew } from '../../support/workers/crew.ts'
import type { Order } from '../../support/workers/protocol.ts'

/** Events of one run; ONCEWARD_E2E_EVENTS makes it longer. */
const COUNT = Number(process.env['ONCEWARD_E2E_EVENTS'] ?? 2_000)
const BLOWS = Math.max(8, Math.round(COUNT / 200))

let queue: Server<SqsConnection>
let server: PostgresServer
beforeAll(async () => {
  queue = await sqs({ process: true })
  server = await postgres({ native: true })
})
afterAll(() => Promise.all([queue.stop(), server.stop()]))

/*
 * Random blows. The seed is printed, and ONCEWARD_E2E_SEED repeats the blows, but the timing differs
 * between runs.
 */
test.each(['each', 'batch'] as const)(
  "with workers killed and frozen, Postgres restarted, and messages sent twice, every event has one effect: transaction '%s'",
  { tags: 'nightly', timeout: 120_000 + COUNT * 20 },
  async (transaction) => {
    const dice = createDice()
    await using stage = await TestStage.open({
      queue: await createSqsQueue(queue.connection, { longestHiddenMs: 2_000 }),
      databaseUrl: await server.createDatabase(),
      // Ten, because a blow may interrupt an event that runs alone, and then it counts as an attempt.
      worker: { transaction, deadlineMs: 3_000, attempts: 10 },
    })
    const all = orders(COUNT, { takesMs: 2 })
    const crew = await Crew.of(3, stage)
    const sent = stage.send(withDuplicates(all, dice))

    for (let blow = 1; blow <= BLOWS; blow += 1) {
      await effectsReach(stage, Math.floor((COUNT * (blow - dice.next())) / (BLOWS + 1)))
      await strike(crew, dice, KINDS[blow - 1] ?? dice.pick(KINDS))
    }
    await Promise.all([sent, thawAll(crew)])

    await everythingOnce(stage, all)
    crew.end()
    // No worker ended by itself.
    expect(new Set(crew.deaths), await stage.explain(['nothing'])).toEqual(new Set(['SIGKILL']))
  },
)

/** Every tenth order is sent twice, with its copy anywhere among the others. */
function withDuplicates(all: readonly Order[], dice: Dice): readonly Order[] {
  const copies = all.filter((_, index) => index % 10 === 0)
  return [...all, ...copies]
    .map((order) => ({ order, place: dice.next() }))
    .toSorted((a, b) => a.place - b.place)
    .map(({ order }) => order)
}

/** Each kind once, then random ones. */
const KINDS = ['kill', 'freeze', 'restart', 'crash', 'kill'] as const

const frozen = new WeakSet<Crew['members'][number]>()

async function strike(crew: Crew, dice: Dice, kind: (typeof KINDS)[number] | undefined) {
  await thawAll(crew)
  const victim = dice.pick(crew.members)
  switch (kind) {
    case 'kill':
      return victim?.kill('SIGKILL')
    case 'freeze':
      if (victim !== undefined) frozen.add(victim)
      // Until the next blow.
      return victim?.kill('SIGSTOP')
    case 'crash':
      await server.kill('SIGKILL')
      return server.restart()
    default:
      return server.restart()
  }
}

async function thawAll(crew: Crew): Promise<void> {
  for (const member of crew.members) {
    if (frozen.delete(member)) await member.kill('SIGCONT')
  }
}
