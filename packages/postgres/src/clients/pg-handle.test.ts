import { RetryableError } from '@onceward/core'
import { turn } from '@onceward/testing/adapter'
import pg, { type PoolClient } from 'pg'
import Cursor from 'pg-cursor'
import { describe, expect, it, test, vi } from 'vitest'
import { scriptedServer } from '../fixtures/scripted-server.ts'
import { HandleGate } from '../transaction/refusing-handle.ts'
import { refusingClient } from './pg-handle.ts'

/** A handler's client, on a server that answers every statement. */
async function setUp() {
  const server = scriptedServer(() => ({ row: { a: '1' }, tag: 'SELECT 1' }))
  const pool = new pg.Pool(server.config)
  const client = await pool.connect()
  const gate = new HandleGate()
  return { server, client, gate, tx: refusingClient(client, gate) }
}

const REFUSAL = new RetryableError('the transaction is over')

/** Every way to query. Each resolves with the error of pg, or with undefined. */
const FORMS: Readonly<Record<string, (tx: PoolClient, text: string) => Promise<unknown>>> = {
  'a promise': (tx, text) => tx.query(text).then(noError, (error: unknown) => error),
  'a config': (tx, text) => tx.query({ text }).then(noError, (error: unknown) => error),
  'a callback': (tx, text) => new Promise((resolve) => tx.query(text, resolve)),
  'a callback behind values': (tx, text) =>
    new Promise((resolve) => tx.query(text, ['a'], resolve)),
  'a callback in a config': (tx, text) =>
    new Promise((callback) => tx.query({ text, callback } as never)),
  'a cursor': (tx, text) =>
    tx
      .query(new Cursor(text))
      .read(1)
      .then(noError, (error: unknown) => error),
  'an object with an event': (tx, text) =>
    new Promise((resolve) => {
      const query = tx.query(new pg.Query(text))
      query.on('error', resolve)
      query.on('end', () => resolve(undefined))
    }),
  'an object with a callback': (tx, text) =>
    new Promise((resolve) => {
      const query = {
        ...{ text, submit: noError, callback: undefined as unknown },
        handleError: (error: unknown) => (query.callback as typeof resolve)(error),
      }
      const queried = tx.query(query as never, resolve as never)
      expect(queried).toBe(query)
    }),
}
const noError = (): undefined => undefined

const SENT = ['a promise', 'a config', 'a callback', 'a callback in a config'] as const

test.each(SENT)('a query by %s is sent while the transaction is open', async (name) => {
  const { tx, server } = await setUp()
  expect((await FORMS[name]?.(tx, 'select 1')) ?? undefined).toBeUndefined()
  expect(server.sent).toEqual(['select 1'])
})

describe.each(Object.entries(FORMS))('a query by %s', (_, ask) => {
  // Red when it is sent: it would run in the transaction of the next event.
  it('is refused as pg refuses, once the transaction is over', async () => {
    const { tx, server, gate } = await setUp()
    gate.close(() => REFUSAL)
    expect(await ask(tx, 'select 1')).toBe(REFUSAL)
    expect(server.sent).toEqual([])
  })

  it('may not end the transaction', async () => {
    const { tx, server } = await setUp()
    expect(String(await ask(tx, 'commit'))).toContain('savepoint')
    expect(server.sent).toEqual([])
  })
})

// Red when the callback of the config stays: it would be called beside the one that pg calls.
test('a callback beside a query goes before the one in its config', async () => {
  const { tx, gate } = await setUp()
  gate.close(() => REFUSAL)
  const configured = vi.fn()
  const error = await new Promise((resolve) => {
    void tx.query({ text: 'select', callback: configured } as never, resolve as never)
  })
  expect([error, configured.mock.calls]).toEqual([REFUSAL, []])
})

test('an object that has a callback keeps it when it is refused', async () => {
  const { tx, gate } = await setUp()
  gate.close(() => REFUSAL)
  const [own, other, heard] = [vi.fn(), vi.fn(), vi.fn()]
  const query = { submit: vi.fn(), callback: own, handleError: heard }
  void tx.query(query as never, other as never)
  expect([query.callback, heard.mock.calls]).toEqual([own, []])
  await turn()
  expect(heard.mock.calls).toEqual([[REFUSAL, tx.connection]])
  tx.query({ submit: vi.fn() } as never)
  await turn()
})

test.each<[string, unknown, boolean]>([
  ['a text', "set role 'x'", true],
  ['a config', { text: "set role 'x'" }, true],
  ['a cursor that a stream wraps', { cursor: { text: "set role 'x'" } }, true],
  ['a config that reads', { text: 'select 1' }, false],
  ['an object whose text is not known', { submit: () => undefined }, true],
  ['a `text` that is a number', { text: 1 }, true],
  ['nothing', undefined, true],
  ['null', null, true],
  ['a symbol', Symbol('query'), true],
])('%s may change the settings of the session', async (_, query, expected) => {
  const { client, gate, tx } = await setUp()
  vi.spyOn(client, 'query').mockReturnValue(undefined as never)
  tx.query(query as never)
  expect(gate.hasChangedSettings).toBe(expected)
  expect(client.query).toHaveBeenCalledExactlyOnceWith(query)
})

test('a query that is nothing is refused too, once the transaction is over', async () => {
  const { gate, tx } = await setUp()
  gate.close(() => REFUSAL)
  for (const query of [null, undefined, 1, { callback: 1 }]) {
    await expect(tx.query(query as never)).rejects.toBe(REFUSAL)
  }
})

describe("the user's client", () => {
  it('cannot be given back, ended or connected by the handler', async () => {
    const { tx } = await setUp()
    for (const name of ['release', 'end', 'connect'] as const) {
      expect(() => tx[name]()).toThrow(
        new TypeError(
          `The client of a guarded transaction belongs to onceward: do not call ${name}().`,
        ),
      )
    }
    expect(tx).toBeInstanceOf(pg.Client)
  })

  // Red when it is put on the client: each later event on that connection would end in this handle, which refuses.
  it.each(['query', 'release', 'end', 'connect'] as const)(
    'keeps its %s when a handler puts its own in place',
    async (name) => {
      const { tx, client } = await setUp()
      const former = client[name]
      const own = vi.fn()
      Object.assign(tx, { [name]: own })
      expect([tx[name], client[name]]).toEqual([own, former])
      const second = vi.fn()
      Object.assign(tx, { [name]: second, other: 1 })
      expect([tx[name], client[name], Reflect.get(client, 'other')]).toEqual([second, former, 1])
    },
  )

  it('keeps the others that a handler has put in place', async () => {
    const { tx } = await setUp()
    const [query, release] = [vi.fn(), vi.fn()]
    Object.assign(tx, { query, release })
    expect([tx.query, tx.release]).toEqual([query, release])
  })
})
