import { RetryableError } from '@onceward/core'
import { turn } from '@onceward/testing/adapter'
import {
  CamelCasePlugin,
  CompiledQuery,
  type DatabaseConnection,
  type QueryResult,
  sql,
} from 'kysely'
import { describe, expect, it, test, vi } from 'vitest'
import { errorWith, kyselyOnOther } from '../fixtures/kysely.ts'
import { HandleGate } from '../transaction/refusing-handle.ts'
import { HandleProvider, toTransaction } from './kysely-handle.ts'

/** A handler's handle, on a connection whose answers the test decides. */
function setUp(over: Partial<DatabaseConnection> = {}) {
  const { db, connection, sent } = kyselyOnOther()
  const gate = new HandleGate()
  const provider = new HandleProvider({ ...connection, ...over }, gate)
  return { db, gate, provider, sent, tx: toTransaction(db, provider) }
}

const raw = (text: string): CompiledQuery => CompiledQuery.raw(text)
const REFUSAL = new RetryableError('the transaction is over')

describe('the handle', () => {
  it('is a transaction that runs statements on its one connection', async () => {
    const { tx, sent } = setUp()
    expect(tx.isTransaction).toBe(true)
    await tx.executeQuery(raw('select 1'))
    await sql`select ${2}`.execute(tx)
    expect(sent).toEqual(['select 1', 'select $1'])
    expect(await tx.introspection.getSchemas()).toEqual([])
    expect(sent.at(-1)).toContain('pg_catalog')
  })

  it('keeps the plugins of the user', async () => {
    const { db, provider } = setUp({
      executeQuery: async <R>() => ({ rows: [{ some_name: 1 }] }) as QueryResult<R>,
    })
    const tx = toTransaction(db.withPlugin(new CamelCasePlugin()), provider)
    expect((await sql`select`.execute(tx)).rows).toEqual([{ someName: 1 }])
  })

  it('runs one statement after the other, and is busy until the last has ended', async () => {
    const answers: PromiseWithResolvers<QueryResult<never>>[] = []
    const { tx, provider } = setUp({
      executeQuery: () => {
        answers.push(Promise.withResolvers())
        return answers.at(-1)!.promise as never
      },
    })
    expect(provider.isBusy).toBe(false)
    const both = [tx.executeQuery(raw('one')), provider.send(raw('two'))]
    const idle = vi.fn()
    void provider.idle().then(idle)
    await turn()
    expect([answers.length, provider.isBusy]).toEqual([1, true])
    answers[0]?.reject(errorWith('23505'))
    await expect(both[0]).rejects.toThrow('23505')
    await turn()
    expect([answers.length, provider.isBusy, idle.mock.calls]).toEqual([2, true, []])
    answers[1]?.resolve({ rows: [] })
    await both[1]
    await turn()
    expect([provider.isBusy, idle.mock.calls.length]).toEqual([false, 1])
  })

  it.each(['commit', 'rollback'])('may not send %s', async (text) => {
    const { tx, sent } = setUp()
    await expect(tx.executeQuery(raw(text))).rejects.toThrow(/savepoint/)
    await expect(readAll(tx.getExecutor(), text)).rejects.toThrow(/savepoint/)
    expect(sent).toEqual([])
  })

  it('runs what was queued when it is closed, and nothing else', async () => {
    const { tx, gate, sent } = setUp()
    const queued = tx.executeQuery(raw('queued'))
    gate.close(() => REFUSAL)
    await expect(tx.executeQuery(raw('late'))).rejects.toBe(REFUSAL)
    await queued
    expect(sent).toEqual(['queued'])
  })

  // Red when only new statements are refused: one behind a long one would run beside the next attempt.
  it('runs nothing once it is revoked, what was queued neither', async () => {
    const { tx, gate, sent } = setUp()
    const queued = tx.executeQuery(raw('queued'))
    const consumer = vi.fn()
    const connected = tx.getExecutor().provideConnection(consumer)
    gate.revoke(REFUSAL)
    await expect(queued).rejects.toBe(REFUSAL)
    await expect(connected).rejects.toBe(REFUSAL)
    await expect(tx.executeQuery(raw('late'))).rejects.toBe(REFUSAL)
    expect([sent, consumer.mock.calls]).toEqual([[], []])
  })

  // Red when a connection that a handler has kept works on: it would write in the transaction of the next event.
  it('revokes the connections that a handler has been given', async () => {
    const { provider, gate, sent } = setUp()
    const kept = await provider.provideConnection(async (connection) => connection)
    await kept.executeQuery(raw('first'))
    gate.revoke(REFUSAL)
    await expect(kept.executeQuery(raw('late'))).rejects.toBe(REFUSAL)
    expect(sent).toEqual(['first'])
  })

  it.each([
    ['select 1', false],
    ["set role 'x'", true],
  ])('tells whether a statement may have changed settings: %s', async (text, expected) => {
    const { tx, gate } = setUp()
    await tx.executeQuery(raw(text))
    expect(gate.hasChangedSettings).toBe(expected)
    const streamed = setUp()
    await readAll(streamed.tx.getExecutor(), text)
    expect(streamed.gate.hasChangedSettings).toBe(expected)
  })
})

async function readAll(
  executor: ReturnType<ReturnType<typeof setUp>['tx']['getExecutor']>,
  text: string,
): Promise<readonly unknown[]> {
  const rows: unknown[] = []
  for await (const result of executor.stream(raw(text), 1)) rows.push(...result.rows)
  return rows
}

describe('a stream of rows', () => {
  function streaming() {
    const ended = vi.fn()
    const given = setUp({
      streamQuery: async function* <R>(): AsyncIterableIterator<QueryResult<R>> {
        try {
          for (let n = 1; n < 3; n += 1) yield { rows: [n] } as never
        } finally {
          ended()
        }
      },
    })
    return { ...given, ended, executor: given.tx.getExecutor() }
  }

  it('gives all rows', async () => {
    const { executor, ended } = streaming()
    expect(await readAll(executor, 'select')).toEqual([1, 2])
    expect(ended).toHaveBeenCalledTimes(1)
  })

  // Red when the cursor stays open: nothing else runs on the connection.
  it('is closed when the handler leaves it', async () => {
    const { executor, ended, provider } = streaming()
    for await (const { rows } of executor.stream<number>(raw('select'), 1)) {
      expect(rows).toEqual([1])
      break
    }
    expect(ended).toHaveBeenCalledTimes(1)
    await provider.idle()
  })

  it('ends when the handle is revoked', async () => {
    const { executor, gate, ended } = streaming()
    const rows: unknown[] = []
    const reading = (async () => {
      for await (const result of executor.stream(raw('select'), 1)) {
        rows.push(...result.rows)
        gate.revoke(REFUSAL)
      }
    })()
    await expect(reading).rejects.toBe(REFUSAL)
    expect([rows, ended.mock.calls.length]).toEqual([[1], 1])
  })

  it('may come from a client whose streams cannot be closed', async () => {
    const next = async () => ({ done: true, value: undefined })
    const stream = { next, [Symbol.asyncIterator]: () => stream }
    const { tx } = setUp({ streamQuery: () => stream as never })
    expect(await readAll(tx.getExecutor(), 'select')).toEqual([])
  })
})

// Where the connection of pg is not known, this is all that tells how the transaction is.
test.each<[string, unknown, string]>([
  ['an error of the server', errorWith('23505'), 'failed'],
  ['a lost connection', Object.assign(new Error('read'), { code: 'ECONNRESET' }), 'broken'],
  ['an error of the handler', new Error('declined'), 'open'],
])('%s leaves the transaction so', async (_, error, status) => {
  const executeQuery = vi.fn(async () => ({ rows: [] }) as never)
  const { tx, provider } = setUp({ executeQuery })
  expect(provider.status).toBe('open')
  executeQuery.mockRejectedValueOnce(error)
  await expect(tx.executeQuery(raw('insert'))).rejects.toBe(error)
  expect(provider.status).toBe(status)
  // As a rollback to a savepoint does.
  await tx.executeQuery(raw('rollback to a'))
  expect(provider.status).toBe(status === 'broken' ? 'broken' : 'open')
})

test('a query can be cancelled where the client can', async () => {
  const self: unknown[] = []
  const cancelQuery = vi.fn(async function (this: unknown) {
    self.push(this)
  })
  const { provider } = setUp({ cancelQuery })
  await provider.provideConnection(async (connection) => {
    expect(connection).not.toHaveProperty('killSession')
    expect(connection).not.toHaveProperty('collectSessionInfo')
    await connection.cancelQuery?.(undefined as never)
  })
  expect(self).toEqual([expect.objectContaining({ cancelQuery })])
})
