import { type Inbox, RetryableError } from '@onceward/core'
import {
  eventIdOf,
  type FenceMove,
  type InboxSession,
  type PartitionClaim,
  systemRuntime,
} from '@onceward/core/ports'
import { database } from '@onceward/testing'
import { Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import postgres from 'postgres'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { kyselyInbox } from '../kysely.ts'
import { migrate } from '../operators/migrate.ts'
import { pgInbox } from '../pg.ts'
import { postgresJsInbox } from '../postgres-js.ts'

let url: string
let pool: pg.Pool
let sql: postgres.Sql

beforeAll(async () => {
  url = (await database()).url
  pool = new pg.Pool({ connectionString: url, max: 10 })
  sql = postgres(url, { max: 10 })
  await migrate(pool)
})
afterAll(async () => {
  await sql.end()
  await pool.end()
})

const ignore = (): void => undefined
const logger = { debug: ignore, info: ignore, warn: ignore, error: ignore }
const ID = eventIdOf('billing', undefined, 'kafka/orders/0')
const OF = { clusterId: 'c', topicId: 't', groupId: 'my "grüppe"' }
const CLAIM: PartitionClaim = {
  ...{ key: 'kafka/orders/0', place: 't/0', of: OF, startsAt: 5 },
  name: { topic: 'orders', partition: '0' },
}

const FORMS: readonly (readonly [string, () => Inbox<unknown>])[] = [
  ['pg on a shared pool', () => pgInbox(pool)],
  ['pg on a pool of its own', () => pgInbox({ connectionString: url, max: 10 })],
  ['Kysely', () => kyselyInbox(new Kysely({ dialect: new PostgresDialect({ pool }) }))],
  ['postgres.js', () => postgresJsInbox(sql)],
]

describe.each(FORMS)('offsets of partitions: %s', (_, make) => {
  let session: InboxSession<unknown>

  beforeEach(async () => {
    await pool.query('truncate onceward.kafka_offsets')
    session = await make().open({
      ...{ consumer: 'billing', dedupWindowMs: 86_400_000, fingerprintRule: 0, maxAttempts: 3 },
      ...{ concurrency: 4, concurrencyChosen: false, logger, runtime: systemRuntime },
    })
    return () => session.close?.()
  })

  const claimed = async (): Promise<number> => {
    const answer = await session.offsets?.claim(ID, CLAIM)
    return answer?.kind === 'claimed' ? answer.state.epoch : -1
  }
  const begin = (move: FenceMove) =>
    session.begin({ claim: { kind: 'move', move, events: [] }, waitMs: 250, budgetMs: 10_000 })
  /** An open transaction would keep the next test waiting. */
  const kindOf = async (moving: FenceMove) => {
    const begun = await begin(moving)
    if (begun.kind === 'open') await begun.transaction.rollback()
    return begun.kind
  }
  const move = (epoch: number, old: number, next: number): FenceMove => ({
    ...{ id: ID, epoch, old, next, open: [[old, old + 1]] },
  })
  const none = { results: new Map(), recovered: [] }

  test('a transaction moves its partition on, and no other owner', async () => {
    expect([await claimed(), await claimed()]).toEqual([1, 2])
    expect(await kindOf(move(1, 5, 8))).toBe('none')
    const begun = await begin(move(2, 5, 8))
    if (begun.kind !== 'open') throw new Error('not open')
    expect((await begun.transaction.commit(none)).kind).toBe('committed')
    expect(await kindOf(move(2, 5, 9))).toBe('none')
    expect(await session.offsets?.move(move(2, 8, 10))).toEqual({
      ...{ epoch: 2, generation: 1, next: 10, open: [[8, 9]] },
    })
    expect(await session.offsets?.move(move(1, 10, 12))).toMatchObject({ epoch: 2, next: 10 })
  })

  test('a rollback moves nothing, and a claim waits for the open transaction', async () => {
    await claimed()
    const first = await begin(move(1, 5, 8))
    if (first.kind !== 'open') throw new Error('not open')
    expect((await begin(move(1, 5, 9))).kind).toBe('held')
    first.transaction.revoke(new RetryableError('failed'))
    await first.transaction.rollback()
    const second = await begin(move(1, 5, 6))
    if (second.kind !== 'open') throw new Error('not open')
    const next = session.offsets?.claim(ID, CLAIM)
    expect((await second.transaction.commit(none)).kind).toBe('committed')
    expect(await next).toMatchObject({ kind: 'claimed', state: { epoch: 2, next: 6 } })
  })

  test('a partition of another cluster, topic or group is not claimed', async () => {
    await claimed()
    const claim = (other: Partial<typeof OF>) =>
      session.offsets?.claim(ID, { ...CLAIM, of: { ...OF, ...other } })
    for (const name of ['clusterId', 'topicId', 'groupId']) {
      expect(await claim({ [name]: 'other' })).toMatchObject({
        ...{ kind: 'other', stored: { of: OF, next: 5 } },
      })
    }
    // Not every client tells the id of the cluster.
    expect(await claim({ clusterId: '' })).toMatchObject({ kind: 'claimed', state: { epoch: 2 } })
    expect(await claim({ clusterId: '', topicId: 'other' })).toMatchObject({ kind: 'other' })
    expect(await claim({ clusterId: 'other' })).toMatchObject({ kind: 'other' })
    expect(await claimed()).toBe(3)
  })
})
