import { randomUUID } from 'node:crypto'
import { createGuard } from '@onceward/core'
import { toDelivery } from '@onceward/core/memory'
import type { BeginRequest, IdentifiedEvent } from '@onceward/core/ports'
import { database, proxy, type TcpProxy } from '@onceward/testing'
import { newEvent } from '@onceward/testing/conformance'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  CLIENTS,
  NOTHING,
  type TestClient,
  type TestSession,
  type TestTransaction,
} from './fixtures/clients.ts'
import { newEvents } from './fixtures/inbox.ts'
import { wireLog } from './fixtures/wire.ts'
import { migrate } from './operators/migrate.ts'
import { pgInbox } from './pg.ts'

const ageMs = expect.any(Number)
const noop = (): void => undefined
const EFFECT = 'insert into charges values ($1)'
/** What the claim may cost in round trips over an unguarded transaction. */
const EXTRA = { pg: 0, 'pg with sessions of its own': 0, kysely: 1 } as const
const UNGUARDED = ['begin', EFFECT, 'commit'].length

describe.each(CLIENTS)('the clean path over $name', ({ name, make }) => {
  const log = wireLog()
  let link: TcpProxy
  let client: TestClient
  let session: TestSession

  beforeAll(async () => {
    const { url } = await database()
    const direct = new pg.Pool({ connectionString: url, max: 1 })
    await migrate(direct)
    await direct.query('create table charges (id uuid primary key)')
    await direct.end()
    const { hostname, port } = new URL(url)
    link = await proxy({ host: hostname, port: Number(port) }, { onData: log.onData })
    const through = new URL(url)
    through.host = `${link.host}:${link.port}`
    client = make({ connectionString: through.href, max: 3 })
    session = await client.open({}, { concurrency: 1 })
    // The first transaction of a connection learns its settings.
    await (await session.begun(newEvent())).transaction.rollback()
    log.take()
  })
  afterAll(async () => {
    await client.close()
    await link.stop()
  })

  const withEffect = async (begun: Promise<TestTransaction>): Promise<TestTransaction> => {
    const transaction = await begun
    await transaction.run(EFFECT, [newEvent().id])
    return transaction
  }

  it('needs one commit, and no more round trips than its claim', async () => {
    const { transaction } = await withEffect(session.begun(newEvent()))
    await transaction.commit(NOTHING)
    const trips = log.take()
    expect(trips).toHaveLength(UNGUARDED + EXTRA[name])
    expect(trips.at(-1)).toBe('set local synchronous_commit = on; commit')
    expect(trips.filter((text) => /^begin /.test(text))).toHaveLength(1)
    expect(trips.filter((text) => text.includes('processed_events'))).toHaveLength(1)
  })

  it('needs one statement more than an unguarded transaction, apart from settings', async () => {
    const { transaction } = await withEffect(session.begun(newEvent()))
    await transaction.commit(NOTHING)
    const statements = log.take().flatMap((text) => text.split('; '))
    const own = statements.filter(
      (text) => !/^(?:set local |select before\.|select set_config)/.test(text),
    )
    expect(own.map((text) => /^[a-z]+/.exec(text)?.[0])).toEqual([
      'begin',
      'insert',
      'insert',
      'commit',
    ])
  })

  it.runIf(name === 'pg with sessions of its own')(
    'sends one setting with the claim, where the sessions are its own',
    async () => {
      const { transaction } = await session.begun(newEvent())
      await transaction.commit(NOTHING)
      expect(log.take().map((text) => text.replace(/insert .*?; /, 'insert; '))).toEqual([
        "begin isolation level read committed read write; insert; set local lock_timeout = '0'",
        'set local synchronous_commit = on; commit',
      ])
    },
  )

  it('needs the same number of round trips for a hundred events in one transaction', async () => {
    const { transaction } = await withEffect(session.begun(...newEvents(100)))
    await transaction.commit(NOTHING)
    expect(log.take()).toHaveLength(UNGUARDED + EXTRA[name])
  })

  it('sends results, and the deletion of a failure record, with the commit', async () => {
    const event = newEvent()
    const { transaction } = await withEffect(session.begun(event))
    await transaction.commit({ results: new Map([[event.id, '1']]), recovered: [event.id] })
    const trips = log.take()
    expect(trips).toHaveLength(UNGUARDED + EXTRA[name])
    // As the user and the role that the transaction began with, under settings of our own.
    expect(trips.at(-1)).toMatch(/^set .*; insert into .*; delete from .*; set local .*; commit$/)
  })

  it('records a failure in the flush of the rollback', async () => {
    const event = newEvent()
    const { transaction } = await withEffect(session.begun(event))
    const failure = { event, attempt: 1, error: "it's \\ broken; $1", delayMs: 0 }
    expect(await transaction.rollbackAndFail([failure])).toEqual(['recorded'])
    const trips = log.take()
    expect(trips.slice(UNGUARDED + EXTRA[name] - 1).join()).toContain('failed_events')
    // Kysely gives no rows of a text of several statements, so it takes three steps.
    expect(trips).toHaveLength(UNGUARDED + 3 * EXTRA[name])
  })

  it('needs a claim and a rollback for a duplicate, and the rollback returns its row', async () => {
    const event = newEvent()
    await (await session.begun(event)).transaction.commit(NOTHING)
    log.take()
    expect(
      await session.begin({
        claim: { kind: 'fresh', events: [event] },
        waitMs: 50,
        budgetMs: 5_000,
      }),
    ).toEqual({ kind: 'none', done: [{ kind: 'done', fingerprint: event.fingerprint, ageMs }] })
    expect(client.pool.idleCount).toBe(client.pool.totalCount)
    const trips = log.take()
    expect(trips.slice(1 + EXTRA[name]).join('; ')).toMatch(/^rollback; *select /)
    expect(trips).toHaveLength(2 + 2 * EXTRA[name])
  })

  const seen = (event: IdentifiedEvent): BeginRequest => {
    return {
      claim: { kind: 'fresh', events: [event] },
      waitMs: 50,
      budgetMs: 5_000,
      likelyDone: true,
    }
  }

  it('needs one round trip for a duplicate that this process has seen done', async () => {
    const event = newEvent()
    const { transaction } = await session.begun(event)
    await transaction.commit({ results: new Map([[event.id, '[1]']]), recovered: [] })
    log.take()
    expect(await session.begin(seen(event))).toEqual({
      kind: 'none',
      done: [{ kind: 'done', fingerprint: event.fingerprint, ageMs, result: [1] }],
    })
    expect(client.pool.idleCount).toBe(client.pool.totalCount)
    const trips = log.take()
    expect(trips.join()).not.toContain('insert')
    // Kysely gives no rows of a text of several statements: the begin, settings, the read and the commit.
    expect(trips).toHaveLength(name === 'kysely' ? 4 : 1)
  })

  it('lets many duplicates that this process has seen done share a read', async () => {
    const events = newEvents(50)
    await (await session.begun(...events)).transaction.commit(NOTHING)
    log.take()
    const all = await Promise.all(events.map((event) => session.begin(seen(event))))
    expect(all).toEqual(
      events.map(({ fingerprint }) => ({
        kind: 'none',
        done: [{ kind: 'done', fingerprint, ageMs }],
      })),
    )
    expect(log.take().length).toBeLessThanOrEqual(name === 'kysely' ? 8 : 2)
  })

  it('claims an event that was said to be done and is not, beside one that is', async () => {
    const [done, event] = [newEvent(), newEvent()]
    await (await session.begun(done)).transaction.commit(NOTHING)
    const [known, begun] = await Promise.all([
      session.begin(seen(done)),
      session.begin(seen(event)),
    ])
    expect(known?.kind).toBe('none')
    expect(begun?.kind).toBe('open')
    if (begun?.kind === 'open') await begun.transaction.rollback()
  })

  it.runIf(name !== 'kysely')('needs two round trips an event, while others wait', async () => {
    const inbox = name === 'pg' ? pgInbox(client.pool) : pgInbox(client.pool.options)
    const logger = { debug: noop, info: noop, warn: noop, error: noop }
    const guard = createGuard(
      { consumer: 'chained', inbox, concurrency: 1, logger },
      async (_, { tx }) => {
        await tx.query(EFFECT, [randomUUID()])
      },
    )
    await guard.process(toDelivery('first', { messageId: randomUUID() }))
    log.take()
    const events = Array.from({ length: 20 }, () => toDelivery('next', { messageId: randomUUID() }))
    const all = await Promise.all(events.map((event) => guard.process(event)))
    expect(all).toEqual(events.map(() => ({ kind: 'ack', by: 'processed' })))
    const trips = log.take().filter((text) => /^insert into charges|; commit\b/.test(text))
    expect(trips).toHaveLength(2 * events.length)
    expect(trips.filter((text) => /; commit; begin/.test(text))).toHaveLength(events.length - 1)
    await guard.close()
  })
})
