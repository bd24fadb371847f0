import {
  type BeginRequest,
  ConfigurationError,
  type CountedEvent,
  type IdentifiedEvent,
  type Inbox,
  StoreUnavailableError,
} from '@onceward/core'
import { Clock, turn } from '@onceward/testing/adapter'
import { counted, fresh, newEvent, registration, strangeToken } from '@onceward/testing/conformance'
import { CompiledQuery, Kysely, PostgresDialect, type Transaction } from 'kysely'
import { Pool, type PoolClient } from 'pg'
import { describe, expect, it, vi } from 'vitest'
import { claimServer, opened, takenRow } from './fixtures/claim-server.ts'
import { errorWith } from './fixtures/kysely.ts'
import type { Reply } from './fixtures/scripted-server.ts'
import { kyselyInbox } from './kysely.ts'
import type { BusinessOptions } from './options.ts'
import { pgInbox } from './pg.ts'

interface Given {
  readonly replies?: Readonly<Record<string, Reply>>
  readonly options?: BusinessOptions
}

type MakeInbox = (pool: Pool, options: BusinessOptions) => Inbox<unknown>
type Ask = (tx: unknown, text: string) => Promise<unknown>

/** Both inboxes, and how a handler sends a statement. */
const INBOXES: readonly [string, MakeInbox, Ask][] = [
  [
    'pg',
    (pool, options) => pgInbox(pool, options) as Inbox<unknown>,
    (tx, text) => (tx as PoolClient).query(text),
  ],
  [
    'Kysely',
    (pool, options) => {
      const db = new Kysely<unknown>({ dialect: new PostgresDialect({ pool }) })
      return kyselyInbox(db, { ...options, poolSize: pool.options.max }) as Inbox<unknown>
    },
    (tx, text) => (tx as Transaction<unknown>).executeQuery(CompiledQuery.raw(text)),
  ],
]

describe.each(INBOXES)('a transaction over %s', (name, make, ask) => {
  /** A guard that is open. One connection is for business transactions, two are spare. */
  async function setUp({ replies = {}, options = {} }: Given = {}) {
    const server = claimServer(replies)
    const pool = new Pool({ ...server.config, max: 3 })
    const clock = new Clock()
    const session = await make(pool, options).open(registration(clock.runtime))
    await turn()
    server.sent.length = 0
    const begin = (request: BeginRequest) => session.begin(request)
    return { server, pool, clock, session, begin }
  }
  const [one, other, third] = [newEvent(), newEvent(), newEvent()]
  const countedOne = (event: IdentifiedEvent): CountedEvent =>
    ({ event, token: strangeToken(), attempt: 1, countedAtMs: 0 }) as unknown as CountedEvent
  const idsOf = (begun: unknown) => [...((begun as { claimed?: Set<string> }).claimed ?? [])]

  it('claims an event, and gives the handler its handle', async () => {
    const { begin, server, pool } = await setUp()
    const begun = await begin(fresh(one))
    expect(idsOf(begun)).toEqual([one.id])
    const sent = server.sent.join('; ')
    expect(sent).toContain('begin isolation level read committed read write')
    expect(sent).toContain(`values ('${one.id}'`)
    server.sent.length = 0
    const { tx, status, commit } = bindAll(opened(begun))
    await ask(tx, 'insert into charges')
    expect([status(), server.sent]).toEqual(['open', ['insert into charges']])
    expect(await commit({ results: new Map(), recovered: [] })).toEqual({ kind: 'committed' })
    await turn()
    expect([pool.idleCount, pool.totalCount]).toEqual([1, 1])
  })

  it('has the isolation level that was chosen', async () => {
    const { begin, server } = await setUp({ options: { isolation: 'serializable' } })
    await begin(fresh(one))
    expect(server.sent.join('; ')).toContain('begin isolation level serializable read write')
  })

  it('claims the events of a batch that are free', async () => {
    const { begin } = await setUp({ replies: { 'with taken': takenRow(one, third) } })
    expect(idsOf(await begin(fresh(one, other, third)))).toEqual([one.id, third.id])
    const none = await (await setUp()).begin({ ...fresh(one), claim: { kind: 'none' } })
    expect([none.kind, idsOf(none)]).toEqual(['open', []])
  })

  // Red when the handler keeps the bound of the claim: its statements would fail after 60 ms.
  it.each<[string, BeginRequest]>([
    ['one event', fresh(one)],
    ['a batch', fresh(one, other)],
    ['nothing', { ...fresh(one), claim: { kind: 'none' } }],
  ])('gives the handler the lock timeout of the user after a claim of %s', async (_, request) => {
    const { begin, server } = await setUp({ replies: { 'with taken': takenRow(one) } })
    await begin(request)
    expect(server.sent.at(-1)).toContain("set_config('lock_timeout', pg_catalog.current_setting(")
  })

  it('claims counted events', async () => {
    const both = [countedOne(one), countedOne(other)]
    const { begin } = await setUp({ replies: { 'with taken': takenRow(other) } })
    expect(idsOf(await begin(counted(...both)))).toEqual([other.id])
    const { begin: again, server } = await setUp()
    expect(idsOf(await again(counted(both[0]!)))).toEqual([one.id])
    expect(server.sent.join('; ')).toContain('update "onceward".processed_events')
  })

  // Red when the handler runs: it would run a second time.
  it.each<[string, BeginRequest, Reply, object]>([
    ['one event', fresh(one), { tag: 'INSERT 0 0' }, { kind: 'none', done: [undefined] }],
    ['a counted event', counted(countedOne(one)), { tag: 'UPDATE 0' }, { kind: 'none' }],
    ['a batch', fresh(one, other), takenRow(), { kind: 'none', done: [undefined, undefined] }],
  ])('is not open where %s cannot be claimed', async (_, request, reply, expected) => {
    const replies = { insert: reply, update: reply, 'with taken': reply }
    const { begin, pool } = await setUp({ replies })
    expect(await begin(request)).toMatchObject(expected)
    await turn()
    expect([pool.idleCount, pool.totalCount]).toEqual([1, 1])
    await begin({ ...fresh(one), claim: { kind: 'none' } })
  })

  it('is held where somebody else holds the row, and gives its connection back', async () => {
    const { begin, pool, server } = await setUp({ replies: { insert: { error: '55P03' } } })
    expect(await begin(fresh(one))).toEqual({ kind: 'held' })
    await turn()
    expect([pool.idleCount, server.backends[0]?.status]).toEqual([1, 'I'])
  })

  it('tries another connection where other code has left one unfit', async () => {
    const replies: Record<string, Reply> = { insert: { error: '42501' } }
    const { begin, server } = await setUp({ replies })
    server.answer = ((usual) => (statement, backend) => {
      if (server.backends.length === 3) delete replies['insert']
      return usual(statement, backend)
    })(server.answer)
    expect(idsOf(await begin(fresh(one)))).toEqual([one.id])
    await turn()
    expect(server.backends.map(({ destroyed }) => destroyed)).toEqual([true, true, false])
  })

  it('is refused where every connection is unfit', async () => {
    const { begin, server, pool } = await setUp({ replies: { insert: { error: '42501' } } })
    await expect(begin(fresh(one))).rejects.toThrow(ConfigurationError)
    await turn()
    expect([server.backends.length, pool.totalCount]).toEqual([25, 0])
  })

  it('is refused where the server is in trouble, on a connection that is closed', async () => {
    const { begin, pool } = await setUp({ replies: { insert: { error: '53200' } } })
    await expect(begin(fresh(one))).rejects.toThrow(
      /^PostgreSQL failed while beginning a transaction/,
    )
    await turn()
    expect(pool.totalCount).toBe(0)
  })

  it('is given up where the server falls silent, on a connection that is closed', async () => {
    const { begin, pool, clock } = await setUp({ replies: { insert: { hangs: true } } })
    const refused = vi.fn()
    begin({ ...fresh(one), waitMs: 60 }).catch(refused)
    await clock.advance(10_059)
    expect(refused).not.toHaveBeenCalled()
    await clock.advance(1)
    expect(refused).toHaveBeenCalledWith(new StoreUnavailableError('PostgreSQL does not answer.'))
    await turn()
    expect(pool.totalCount).toBe(0)
  })

  // Red when Kysely sends it as pg does: outside of a transaction, with settings that last.
  it('records a failure in a transaction of its own, on the same connection', async () => {
    const { begin, server } = await setUp()
    const transaction = opened(await begin(fresh(one)))
    server.sent.length = 0
    await transaction.rollbackAndFail([{ event: one, attempt: 1, error: 'declined', delayMs: 0 }])
    const [isPg, texts] = [name === 'pg', server.sent.join('; ')]
    expect(server.backends.length).toBe(1)
    expect([texts.includes('; begin isolation'), texts.endsWith('; commit')]).toEqual([
      !isPg,
      !isPg,
    ])
    expect(server.sent.length === 1).toBe(isPg)
  })

  // Red when a slot is kept: after as many events as there are slots, no event of any guard on the pool runs.
  it('waits for a slot of the pool as long as its budget, and gives it back', async () => {
    const { begin, clock } = await setUp()
    const first = opened(await begin(fresh(one)))
    const refused = vi.fn()
    begin({ ...fresh(other), budgetMs: 200 }).catch(refused)
    await clock.advance(199)
    expect(refused).not.toHaveBeenCalled()
    await clock.advance(1)
    expect(refused).toHaveBeenCalledTimes(1)
    const waiting = begin(fresh(other))
    await first.rollback()
    expect(idsOf(await waiting)).toEqual([other.id])
  })

  it('gives its slot back where there is no connection', async () => {
    const { begin, pool } = await setUp()
    const connect = vi.spyOn(pool, 'connect').mockRejectedValue(new Error('ECONNREFUSED') as never)
    await expect(begin(fresh(one))).rejects.toThrow(StoreUnavailableError)
    connect.mockRestore()
    expect(idsOf(await begin(fresh(one)))).toEqual([one.id])
  })

  it('has short statements beside it, on spare connections', async () => {
    const { begin, session, server, pool } = await setUp({
      replies: { '\nselect concat_ws': { row: { answer: 'the server' } } },
    })
    await begin(fresh(one))
    server.sent.length = 0
    expect(await session.identity()).toBe('the server')
    // pg takes all statements of it in one text.
    expect(server.sent.at(-1)?.includes('concat_ws')).toBe(name === 'pg')
    expect([server.backends.length, pool.idleCount]).toEqual([2, 1])
    expect(session.concurrency).toBe(1)
    expect(session.diagnose(errorWith('40001'))).toBe('serialization')
  })
})

/** Its methods may be called without it. */
function bindAll<Tx>(transaction: ReturnType<typeof opened<Tx>>) {
  return {
    tx: transaction.tx,
    status: () => transaction.status(),
    commit: transaction.commit.bind(transaction),
  }
}
