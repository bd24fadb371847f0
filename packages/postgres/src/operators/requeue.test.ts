import type { Delivery } from '@onceward/core'
import { describe, expect, it, onTestFinished, test, vi } from 'vitest'
import { deadLetterRow, delivery, ID } from '../fixtures/dead-letter-row.ts'
import { scriptedPool } from '../fixtures/scripted-pool.ts'
import type { DeadLetterRow } from '../statements/dead-letters.ts'
import { createStatements } from '../statements/index.ts'
import { type QueueSender, requeue } from './requeue.ts'

interface Given {
  /** The rows of the dead letter, as they are read one after the other. */
  readonly rows?: readonly (DeadLetterRow | undefined)[]
  readonly sender?: Partial<QueueSender>
  readonly answers?: Parameters<typeof scriptedPool>[0]
}

async function requeued({ rows = [deadLetterRow()], sender, answers }: Given = {}) {
  const read = rows.map((row) => (row === undefined ? [] : [row]))
  const isEvent = rows[0]?.kind !== 'refused'
  const free = { freeEvent: [[ID]], freeRefused: [[ID]] }
  const pool = scriptedPool({ [isEvent ? 'readEvent' : 'readRefused']: read, ...free, ...answers })
  const begun = () => pool.transactions.length
  /** What the sender was asked, and how many transactions had begun and ended before. */
  const asked: (readonly [string, unknown, number])[] = []
  const all: QueueSender = {
    owns: () => true,
    ready: async (source) => void asked.push(['ready', source, begun()]),
    send: async (message) => void asked.push(['send', message, begun()]),
    ...sender,
  }
  const operation = { pool, statements: createStatements(), by: 'alice', sender: all }
  const answer = await requeue(operation, ID)
  const last = pool.transactions.at(-1)?.[0]
  return { answer, asked, last, transactions: pool.transactions }
}

const sent = ({ asked }: { readonly asked: readonly (readonly unknown[])[] }): unknown[] =>
  asked.filter(([verb]) => verb === 'send').map(([, message]) => message)

describe('a requeue', () => {
  // Red when the wait has no end: the right to send ends, and another operator sends the message too.
  it('gives up a broker that does not confirm, before its right to send ends', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    const asked = Promise.withResolvers<void>()
    const send = (): Promise<void> => {
      asked.resolve()
      return new Promise(() => undefined)
    }
    let isOver = false
    const requeuing = requeued({ sender: { send } }).finally(() => {
      isOver = true
    })
    await asked.promise
    await vi.advanceTimersByTimeAsync(19_999)
    expect(isOver).toBe(false)
    await vi.advanceTimersByTimeAsync(1)
    const { answer, last } = await requeuing
    expect(answer).toEqual({ why: 'unconfirmed', error: expect.stringContaining('the broker') })
    expect(last?.[0]).toBe('unconfirmEvent')
  })

  it.each([
    ['is gone', undefined, 'unknown'],
    ['was discarded', deadLetterRow({ discarded: true }), 'unknown'],
  ])('asks no broker for a dead letter that %s', async (_what, row, why) => {
    const ready = () => Promise.reject(new Error('asked'))
    const { answer, asked } = await requeued({ rows: [row], sender: { ready } })
    expect([answer, asked]).toEqual([{ why }, []])
  })

  // Red before: the answer of the run that lost was taken, and the message was sent without a right.
  it('decides anew when its transaction loses against another operator', async () => {
    const lostRace = Object.assign(new Error('deadlock detected'), { code: '40P01' })
    const rows = [deadLetterRow(), deadLetterRow(), deadLetterRow({ publishing: true })]
    const given = { rows, answers: { commit: [[], lostRace, []] } }
    const { answer, asked } = await requeued(given)
    expect([answer, sent({ asked })]).toEqual([{ why: 'held' }, []])
  })
})

const from = (source: Partial<Delivery['source']>): string =>
  JSON.stringify({ ...delivery.source, ...source })
const kafka = from({ broker: 'kafka', queue: 'orders', position: '0/12' })
const nats = from({ broker: 'nats', queue: 'orders', position: '12' })

// A copy gets another id or position from its broker: it would be another event, whose effect could happen as well.
test('the item of a message is not sent, because its queue has whole messages', async () => {
  const properties = Buffer.from('{"item":{"index":1,"hasBigints":false}}').toString('base64')
  const { answer, asked } = await requeued({ rows: [deadLetterRow({ properties })] })
  expect(answer).toEqual({ why: 'item' })
  expect(sent({ asked })).toEqual([])
})

test.each<[string, Partial<DeadLetterRow>, boolean]>([
  ['of the application', { key: 'order-1' }, true],
  [
    'that no refused message has',
    { kind: 'refused', key: null, source: from({ position: 'null' }) },
    true,
  ],
  ['that is the id of the broker', { key: 'a-message-id' }, false],
  ['that has the id of the broker in it', { key: 'orders:a-message-id' }, false],
  [
    'that has the id of the broker in it, escaped',
    { key: 'a\\"b', source: from({ position: 'a"b' }) },
    false,
  ],
  ['that is a position', { key: 'position:3:sqs:5:order:1:1' }, false],
  ['with a position in it behind other words', { key: 'a position:3' }, true],
  [
    'without a position of the broker',
    { key: 'undefined', source: from({ position: undefined }) },
    true,
  ],
  ['with an empty position of the broker', { source: from({ position: '' }) }, true],
  ['with the place of a record of Kafka', { key: 'orders/0/12', source: kafka }, false],
  ['with a part that looks like an offset of Kafka', { key: 'card 0/12', source: kafka }, true],
  ['with the name of a topic of Kafka', { key: 'orders-7', source: kafka }, true],
  ['with the sequence of NATS', { key: 'orders/12', source: nats }, false],
  ['that is the sequence of NATS', { key: '12', source: nats }, false],
  ['with a digit of the sequence of NATS', { key: 'order-12', source: nats }, true],
  ['with a longer number than the sequence of NATS', { key: 'orders-712', source: nats }, true],
])('a dead letter with a key %s is sent: %#', async (_what, over, is) => {
  const { answer, asked } = await requeued({ rows: [deadLetterRow(over)] })
  expect(answer).toEqual(is ? undefined : { why: 'broker-key' })
  expect(sent({ asked })).toHaveLength(is ? 1 : 0)
})
