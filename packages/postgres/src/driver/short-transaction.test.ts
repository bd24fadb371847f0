import { StoreUnavailableError } from '@onceward/core'
import { Clock } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import type { QueryAnswer } from './driver.ts'
import { createShortTransactions, type StatementConnection } from './short-transaction.ts'

type Answer = () => Promise<QueryAnswer>

const rowOf = (answer: string): QueryAnswer => ({ rows: [{ answer }], rowCount: 1 })
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
    isAwaited: () => false,
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
