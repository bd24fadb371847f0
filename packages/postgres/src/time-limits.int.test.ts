import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { inspect } from 'node:util'
import { DeadlineExceededError, type Delivery, type Guard, type Settlement } from '@onceward/core'
import { database, until } from '@onceward/testing'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Run } from './fixtures/clients.ts'
import { DRIVERS, type Guards, order } from './fixtures/guards.ts'
import { migrate } from './operators/migrate.ts'

const ATTEMPTS = 3
const LIMIT_MS = 200
const retry = { attempts: ATTEMPTS, baseMs: 1, maxMs: 1 }

const SLOW: Readonly<Record<string, (run: Run) => Promise<unknown>>> = {
  'in a statement': (run) => run('select pg_sleep(10)'),
  'between two statements': async (run) => {
    await pause(2 * LIMIT_MS)
    await run('select 1')
  },
  'after its last statement': () => pause(2 * LIMIT_MS),
}

/** The first version of the server that has a limit, as in `server_version_num`. */
const SINCE: Readonly<Record<string, number>> = { transaction_timeout: 170_000 }
const NO_LIMIT = 'This server is older than PostgreSQL 17 and has no transaction_timeout.'

/** A statement is not idle. */
const NEVER_ENDS = { 'in a statement': 'idle_in_transaction_session_timeout' }

const limits = ['transaction_timeout', 'idle_in_transaction_session_timeout'] as const
const worlds = DRIVERS.filter(({ name }) => name !== 'pglite').flatMap((driver) =>
  limits.map((limit) => ({ ...driver, limit })),
)

/** Delivers until the event has ended, each time as a first delivery. Answers what became of it each time. */
async function untilEnded(guard: Guard, delivery: Delivery): Promise<readonly Settlement[]> {
  const settlements: Settlement[] = []
  while (settlements.length < 4 * ATTEMPTS) {
    const settlement = await guard.process(delivery)
    settlements.push(settlement)
    if (settlement.kind !== 'defer') break
    await pause(5)
  }
  return settlements
}

/*
 * Red before: each run counted as a lost connection, so nothing was counted. Such an event never ended, and the log told to
 * check the server and the network.
 */
describe.each(worlds)('a handler slower than $limit of its role, over $name', (world) => {
  const { connect, limit } = world
  const role = `limited_${randomUUID().slice(0, 8)}`
  let admin: Guards
  let guards: Guards
  let hasLimit = true
  beforeAll(async () => {
    const url = new URL((await database()).url)
    admin = await connect({ url: url.href })
    const [server] = await admin.admin(
      `select current_setting('server_version_num')::int as version`,
    )
    hasLimit = Number(server?.['version']) >= (SINCE[limit] ?? 0)
    if (!hasLimit) return
    if (admin.pool !== undefined) await migrate(admin.pool)
    await admin.admin(`create role ${role} superuser login`)
    await admin.admin(`alter role ${role} set ${limit} = ${LIMIT_MS}`)
    guards = await connect({ url: Object.assign(url, { username: role }).href })
  })
  afterAll(async () => {
    if (hasLimit) {
      await guards.close()
      await admin.admin(`drop owned by ${role}; drop role ${role}`)
    }
    await admin.close()
  })

  const shapes = Object.entries(SLOW).filter(([name]) => Reflect.get(NEVER_ENDS, name) !== limit)

  it.for(shapes)(
    '%s uses its attempts up, and its error names the limit',
    async ([_shape, slow], { skip }) => {
      skip(!hasLimit, NO_LIMIT)
      const attempts: number[] = []
      const guard = guards.make(
        async ({ attempt }, run) => {
          attempts.push(attempt)
          await slow(run)
          return undefined
        },
        { retry },
      )
      const settlements = await untilEnded(guard, order())
      await guard.close()
      const kinds = settlements.map(({ kind }) => kind)
      expect(kinds, inspect(settlements)).toEqual(['defer', 'defer', 'dead-letter'])
      // An attempt runs once more if the server ends the session while its COMMIT is on the way: the outcome is unknown then.
      expect([...new Set(attempts)]).toEqual([1, 2, 3])
      expect(attempts.length).toBeLessThanOrEqual(2 * ATTEMPTS)
      expect(settlements.at(-1)).toMatchObject({ reason: 'attempts-spent' })
      for (const { error } of settlements as readonly { readonly error: unknown }[]) {
        expect(error).toBeInstanceOf(DeadlineExceededError)
        expect((error as Error).message).toContain(limit)
      }
    },
  )

  it('does not hold up the events of its batch', async ({ skip }) => {
    skip(!hasLimit, NO_LIMIT)
    const guard = guards.make(
      async ({ payload }) => {
        if (payload['slow'] === true) await pause(2 * LIMIT_MS)
        return undefined
      },
      { retry, transaction: 'batch' },
    )
    const orders = [order(), order({ slow: true }), order()]
    const settled = await guard.processBatch(orders)
    expect(settled.map(({ kind }) => kind)).toEqual(['ack', 'defer', 'ack'])
    const rest = await untilEnded(guard, orders[1] as Delivery)
    await guard.close()
    expect(rest.at(-1)).toMatchObject({ kind: 'dead-letter', reason: 'attempts-spent' })
  })
})

it.each(DRIVERS.filter(({ name }) => name !== 'pglite'))(
  'idle_session_timeout of its role defers no event, over $name',
  async ({ connect }) => {
    const url = new URL((await database()).url)
    const role = `idle_${randomUUID().slice(0, 8)}`
    const admin = await connect({ url: url.href })
    if (admin.pool !== undefined) await migrate(admin.pool)
    await admin.admin(`create role ${role} superuser login`)
    await admin.admin(`alter role ${role} set idle_session_timeout = ${LIMIT_MS}`)
    const guards = await connect({ url: Object.assign(url, { username: role }).href })
    const guard = guards.make(() => undefined)
    const left = 'select count(*)::int as n from pg_stat_activity where usename = $1'
    for (let round = 0; round < 3; round++) {
      const settled = await guard.processBatch([order(), order(), order()])
      expect(settled.map(({ kind }) => kind)).toEqual(['ack', 'ack', 'ack'])
      // The server has closed every connection of the pool.
      await until(async () => (await admin.admin(left, [role]))[0]?.['n'] === 0)
    }
    await guard.close()
    await guards.close()
    await admin.admin(`drop owned by ${role}; drop role ${role}`)
    await admin.close()
  },
)
