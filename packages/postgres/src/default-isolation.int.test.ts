import { randomUUID } from 'node:crypto'
import { createGuard, type Guard, type Settlement } from '@onceward/core'
import { toDelivery } from '@onceward/core/memory'
import { database, until } from '@onceward/testing'
import { LEASE_MS, newClaim, silent } from '@onceward/testing/conformance'
import { Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import { afterEach, describe, expect, it } from 'vitest'
import { lockWaiters } from './fixtures/inbox.ts'
import { kyselyInbox } from './kysely.ts'
import { postgresLeases } from './lease-store.ts'
import { migrate } from './operators/migrate.ts'
import { pgInbox } from './pg.ts'

const EVENTS = 12
const LEVELS = ['repeatable read', 'serializable'] as const
const SCOPES = ['role', 'database'] as const
const CASES = SCOPES.flatMap((scope) => LEVELS.map((level) => ({ scope, level })))

const pools: pg.Pool[] = []
afterEach(async () => {
  await Promise.all(pools.splice(0).map((pool) => pool.end()))
})

function poolOf(connectionString: string): pg.Pool {
  const pool = new pg.Pool({ connectionString, max: 6 })
  pools.push(pool)
  return pool
}

/** A migrated database with another default isolation level. */
async function connectTo({ scope, level }: (typeof CASES)[number]): Promise<() => pg.Pool> {
  const url = new URL((await database()).url)
  const admin = poolOf(url.href)
  if (scope === 'database') {
    const { rows } = await admin.query('select current_database() as name')
    await admin.query(
      `alter database "${rows[0].name}" set default_transaction_isolation = '${level}'`,
    )
  } else {
    const role = `other_${randomUUID().slice(0, 8)}`
    await admin.query(`create role ${role} superuser login password 'other'`)
    await admin.query(`alter role ${role} set default_transaction_isolation = '${level}'`)
    url.username = role
    url.password = 'other'
  }
  const make = (): pg.Pool => poolOf(url.href)
  const pool = make()
  const { rows } = await pool.query('show default_transaction_isolation')
  expect(rows[0].default_transaction_isolation).toBe(level)
  await migrate(pool)
  return make
}

/** Delivers each event twice to each guard, all at the same time; the later copies are redeliveries. */
async function deliverCopies(
  guards: readonly Guard[],
  keys: readonly string[],
): Promise<readonly Settlement[]> {
  const copies = [1, 2].flatMap((deliveryCount) =>
    keys.flatMap((key) =>
      guards.map((guard) =>
        guard.process(toDelivery({ key }, { headers: { 'idempotency-key': key }, deliveryCount })),
      ),
    ),
  )
  return Promise.all(copies)
}

/** Repeats until all copies are duplicates, because a deferred copy may be deferred again. */
async function redeliver(guards: readonly Guard[], keys: readonly string[]): Promise<void> {
  const seen = new Set<string>()
  await until(async () => {
    const kinds = kindsOf(await deliverCopies(guards, keys))
    for (const kind of kinds) seen.add(kind)
    return kinds.join() === 'duplicate'
  })
  expect([...seen]).not.toContain('store-down')
}

const kindsOf = (settlements: readonly Settlement[]): readonly string[] =>
  [...new Set(settlements.map((each) => ('by' in each ? each.by : each.reason)))].toSorted()

const newKeys = (): readonly string[] => Array.from({ length: EVENTS }, () => randomUUID())

describe.each(CASES)('a $scope with the default isolation $level', (where) => {
  it('lets no claim, renewal or completion of a lease fail', async () => {
    const make = await connectTo(where)
    const [one, other] = [postgresLeases(make()), postgresLeases(make())]
    for (let round = 0; round < 10; round += 1) {
      const claims = Array.from({ length: EVENTS }, () => newClaim())
      const rivals = claims.map(({ id }) => newClaim({ id }))
      const answers = (await Promise.all([one.claim(claims), other.claim(rivals)])).flat()
      const first = answers.filter(({ kind }) => kind === 'acquired')
      expect(first).toHaveLength(EVENTS)
      expect(answers.filter(({ kind }) => kind === 'in-progress')).toHaveLength(EVENTS)
      const owned = answers.flatMap((answer, at) => {
        const claim = [...claims, ...rivals][at]
        return answer.kind === 'acquired' && claim !== undefined ? [claim] : []
      })
      const [completed] = await Promise.all([
        one.complete(owned, 60_000),
        other.renew(owned, LEASE_MS),
        other.renew(owned.toReversed(), LEASE_MS),
      ])
      expect(new Set(completed)).toEqual(new Set(['held']))
    }
  })

  it('lets each event run once under leases alone, and its copies get answers', async () => {
    const make = await connectTo(where)
    const runs = new Map<string, number>()
    const makeGuard = (): Guard =>
      createGuard(
        {
          ...{ consumer: 'mail', leases: postgresLeases(make()), logger: silent },
          ...{ onTakeover: 'retry', claimWaitMs: 20 },
        },
        ({ key }) => void runs.set(key, (runs.get(key) ?? 0) + 1),
      )
    const guards = [makeGuard(), makeGuard(), makeGuard()]
    const keys = newKeys()
    const settlements = await deliverCopies(guards, keys)
    expect(kindsOf(settlements)).not.toContain('store-down')
    await redeliver(guards, keys)
    expect([...runs.values()]).toEqual(keys.map(() => 1))
    await Promise.all(guards.map((guard) => guard.close()))
  })

  it.each(['pg', 'kysely'])('lets an inbox over %s answer copies as duplicates', async (name) => {
    const make = await connectTo(where)
    await make().query('create table effects (key text not null)')
    const effect = 'insert into effects values ($1)'
    const common = { consumer: 'billing', logger: silent }
    const makeGuard = (): Guard => {
      const pool = make()
      if (name === 'pg') {
        const inbox = pgInbox(pool)
        return createGuard({ ...common, inbox }, async ({ key }, { tx }) => {
          await tx.query(effect, [key])
        })
      }
      const db = new Kysely<{ effects: { key: string } }>({
        dialect: new PostgresDialect({ pool }),
      })
      const inbox = kyselyInbox(db, { poolSize: 6 })
      return createGuard({ ...common, inbox }, async ({ key }, { tx }) => {
        await tx.insertInto('effects').values({ key }).execute()
      })
    }
    const guards = [makeGuard(), makeGuard(), makeGuard()]
    const keys = newKeys()
    const settlements = await deliverCopies(guards, keys)
    expect(kindsOf(settlements)).not.toContain('store-down')
    await redeliver(guards, keys)
    const { rows } = await make().query('select count(*)::int as n from effects')
    expect(rows[0].n).toBe(EVENTS)
    await Promise.all(guards.map((guard) => guard.close()))
  })

  it('lets a claim that waits for a rival be answered by the state that the rival left', async () => {
    const make = await connectTo(where)
    const pool = make()
    const leases = postgresLeases(pool)
    const mine = newClaim()
    await leases.claim([mine])
    await leases.fail([{ ...mine, delayMs: 0 }])
    const rival = await make().connect()
    await rival.query('begin; select from onceward.leases for update')
    const claiming = leases.claim([newClaim({ id: mine.id })])
    await until(async () => (await lockWaiters(pool)) === 1)
    await rival.query(`update onceward.leases set state = 'p', owner = 'rival',
      ends_at = now() + interval '1 hour', forget_at = now() + interval '2 hours'; commit`)
    rival.release()
    expect(await claiming).toMatchObject([{ kind: 'in-progress' }])
  })
})
