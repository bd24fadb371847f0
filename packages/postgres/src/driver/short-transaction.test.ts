import { StoreUnavailableError } from '@onceward/core'
import { Clock } from '@onceward/testing/adapter'
import { describe, expect, it, test } from 'vitest'
import type { QueryAnswer } from './driver.ts'
import { DURABLE_IF_OFF } from './session-settings.ts'
import { createShortTransactions, opening, type StatementConnection } from './short-transaction.ts'

type Answer = () => Promise<QueryAnswer>

const rowOf = (answer: string): QueryAnswer => ({ rows: [{ answer }], rowCount: 1 })
const failing =
  (code: string): Answer =>
  () =>
    Promise.reject(Object.assign(new Error(`the error ${code}`), { code }))
const hanging: Answer = () => new Promise(() => undefined)

interface Given {
  readonly sendsAtOnce?: boolean
  /** By the first words of a statement. */
  readonly answers?: Readonly<Record<string, Answer>>
  readonly isUnreplicated?: boolean
}

/** Short transactions over connections whose answers the test decides. */
function setUp({ sendsAtOnce = false, answers = {}, isUnreplicated = false }: Given = {}) {
  const clock = new Clock()
  const sent: string[] = []
  /** Of each connection that was given back, whether it is closed. */
  const released: boolean[] = []
  const slots = { taken: 0, given: 0, limitMs: 0 }
  const connects: { answer: () => Promise<void> } = { answer: async () => undefined }
  const answerTo = (text: string): Promise<QueryAnswer> => {
    sent.push(text)
    const found = Object.keys(answers).find((words) => text.startsWith(words))
    return found === undefined ? Promise.resolve(rowOf(text)) : answers[found]!()
  }
  const connection: StatementConnection = {
    query: (text, values) => answerTo(values === undefined ? text : `${text} ${values}`),
    send: async (texts) => {
      let last = rowOf('')
      for (const text of texts) last = await answerTo(text)
      return last
    },
    isUnreplicated: () => isUnreplicated,
    release: (isBroken) => void released.push(isBroken),
  }
  const spare = {
    tryAcquire: () => undefined,
    acquire: async ({ limitMs }: { readonly limitMs: number }) => {
      slots.taken += 1
      slots.limitMs = limitMs
      return () => {
        slots.given += 1
      }
    },
  }
  const short = createShortTransactions({
    gate: { business: spare, spare },
    runtime: clock.runtime,
    connect: async () => {
      await connects.answer()
      return connection
    },
    sendsAtOnce,
  })
  return { clock, sent, released, slots, connects, short }
}

/** What was answered or thrown by then. */
function watched<Result>(promise: Promise<Result>) {
  const end: { answer?: Result; error?: unknown } = {}
  promise.then(
    (answer) => Object.assign(end, { answer }),
    (error: unknown) => Object.assign(end, { error }),
  )
  return end
}

describe('a statement', () => {
  it('travels with the beginning of its transaction where all texts can, with its values in it', async () => {
    const { short, sent, released, slots } = setUp({ sendsAtOnce: true })
    expect(await short.query('select $1', ["o'clock"])).toEqual(rowOf("select 'o''clock'"))
    expect(sent).toEqual([...opening(true), "select 'o''clock'"])
    expect(sent[0]).toBe('set transaction isolation level read committed, read write')
    expect([released, slots]).toEqual([[false], { taken: 1, given: 1, limitMs: 15_000 }])
    sent.length = 0
    await short.durable('insert')
    expect(sent).toEqual([...opening(true), DURABLE_IF_OFF, 'insert'])
  })

  it('has a transaction of several texts elsewhere', async () => {
    const { short, sent, released } = setUp()
    expect(await short.query('select $1', ['a'])).toEqual(rowOf('select $1 a'))
    expect(sent).toEqual([...opening(false), 'select $1 a', 'commit'])
    expect(sent[0]).toBe('begin isolation level read committed, read write')
    sent.length = 0
    await short.durable('insert')
    expect(sent).toEqual([...opening(false), DURABLE_IF_OFF, 'insert', 'commit'])
    expect(released).toEqual([false, false])
  })
})

test('a short transaction is durable, and has the result of its work', async () => {
  const { short, sent } = setUp()
  const work = async (connection: { query(text: string): Promise<QueryAnswer> }) => {
    const { rows } = await connection.query('one')
    return rows[0]?.['answer']
  }
  expect(await short.shortTransaction(work)).toBe('one')
  expect(sent).toEqual([...opening(false), DURABLE_IF_OFF, 'one', 'commit'])
})

// Red when a record counts that a failover may lose: its delivery is acked, and the broker does not bring it again.
test.each([true, false])(
  'what is not replicated as demanded is not recorded, unless it may be lost; at once: %s',
  async (sendsAtOnce) => {
    const { short, released } = setUp({ sendsAtOnce, isUnreplicated: true })
    await expect(short.durable('insert')).rejects.toThrow(/not replicated/)
    await expect(short.shortTransaction(async () => 1)).rejects.toThrow(StoreUnavailableError)
    expect(await short.query('insert')).toMatchObject({ rowCount: 1 })
    expect(released).toEqual([false, false, false])
  },
)

describe('a failure', () => {
  it.each([
    ['22P02', false],
    ['42501', true],
    ['57P01', true],
    ['25006', true],
  ])(
    '%s of a statement rolls back, and closes its connection if that is of no use: %s',
    async (code, isClosed) => {
      const { short, sent, released, slots } = setUp({ answers: { insert: failing(code) } })
      await expect(
        short.shortTransaction((connection) => connection.query('insert')),
      ).rejects.toThrow(code)
      expect(sent.filter((text) => text === 'commit')).toEqual([])
      expect(sent.at(-1)).toBe('rollback')
      expect([released[0], slots.taken === slots.given]).toEqual([isClosed, true])
    },
  )

  it('of the work rolls back too, and the error of the rollback is not the one that is thrown', async () => {
    const { short, sent, released } = setUp({ answers: { rollback: failing('57P01') } })
    const error = new Error('the work')
    await expect(short.shortTransaction(() => Promise.reject(error))).rejects.toBe(error)
    expect(sent.at(-1)).toBe('rollback')
    expect(released).toEqual([true])
  })

  // Red when the pool lends a connection whose transaction is still open.
  it('gives its connection back only when it is rolled back', async () => {
    const rolledBack = Promise.withResolvers<QueryAnswer>()
    const { short, released, clock } = setUp({ answers: { rollback: () => rolledBack.promise } })
    const ended = watched(short.shortTransaction(() => Promise.reject(new Error('the work'))))
    await clock.advance(1_000)
    expect([ended, released]).toEqual([{}, []])
    rolledBack.resolve(rowOf('rollback'))
    await clock.advance(0)
    expect([String(ended.error), released]).toEqual(['Error: the work', [false]])
  })

  it('to connect gives the slot back', async () => {
    const { short, connects, slots } = setUp()
    connects.answer = () => Promise.reject(new StoreUnavailableError('down'))
    await expect(short.query('select')).rejects.toThrow('down')
    expect([slots.taken, slots.given]).toEqual([1, 1])
  })

  it('to get the row before another transaction is no failure: all of it runs again', async () => {
    const codes = ['40001', '40P01']
    const { short, clock, sent } = setUp({
      answers: {
        insert: () =>
          codes.length > 0 ? failing(codes.shift() ?? '')() : Promise.resolve(rowOf('insert')),
      },
    })
    const ended = watched(short.shortTransaction((connection) => connection.query('insert')))
    await clock.advance(1_000)
    expect(ended).toEqual({ answer: rowOf('insert') })
    expect(sent.filter((text) => text === 'rollback')).toHaveLength(2)
  })
})

// Red when a silent server is waited for twice: it keeps one of two spare connections, and the event, for 30 seconds.
test.each<[string, Given]>([
  ['a statement', { answers: { insert: hanging, rollback: hanging } }],
  ['all in one text', { sendsAtOnce: true, answers: { insert: hanging } }],
  ['the commit', { answers: { commit: hanging } }],
  ['the beginning', { answers: { begin: hanging } }],
])('a server that does not answer %s is given up after 15 seconds', async (_, given) => {
  const { short, clock, released, slots } = setUp(given)
  const ended = watched(
    given.sendsAtOnce
      ? short.query('insert')
      : short.shortTransaction((connection) => connection.query('insert')),
  )
  await clock.advance(14_999)
  expect([ended, released]).toEqual([{}, []])
  await clock.advance(1)
  expect(ended.error).toBeInstanceOf(StoreUnavailableError)
  expect(String(ended.error)).toContain('did not answer within 15000 ms')
  expect([released, slots.given]).toEqual([[true], 1])
})
