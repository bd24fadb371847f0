import { ConfigurationError, type Delivery } from '@onceward/core'
import { describe, expect, it, onTestFinished, test, vi } from 'vitest'
import { deadLetterRow, delivery, ID } from './fixtures/dead-letter-row.ts'
import { scriptedPool } from './fixtures/scripted-pool.ts'
import { type QueueSender, requeue } from './requeue.ts'
import type { DeadLetterRow } from './statements/dead-letters.ts'
import { createStatements } from './statements/index.ts'

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
const lost = () => Promise.reject(new Error('connection lost'))

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
  it.each([
    ['event', 'freeEvent', 'confirmEvent'],
    ['refused', 'freeRefused', 'confirmRefused'],
  ] as const)('frees the %s, sends its message, and then deletes it', async (kind, free, end) => {
    const { answer, asked, transactions } = await requeued({ rows: [deadLetterRow({ kind })] })
    expect(answer).toBeUndefined()
    expect(asked).toEqual([
      ['ready', delivery.source, 1],
      ['send', delivery, 2],
    ])
    const [, freed, confirmed] = transactions
    const token = freed?.at(-2)?.[2]
    expect(token).toMatch(UUID)
    expect(freed?.slice(-2)).toEqual([[free, ID, token, '30000', 'alice'], ['commit']])
    expect(confirmed).toEqual([[end, ID, token, 'alice'], ['commit']])
    expect(transactions).toHaveLength(3)
  })

  it('sends a large body whole', async () => {
    const row = deadLetterRow({ body: '', bodyBytes: 2, bodyParts: 1 })
    const body = Buffer.from([4, 5]).toString('base64')
    const { asked } = await requeued({
      rows: [row],
      answers: { 'bodies.event.readPart': [[body]] },
    })
    expect(sent({ asked })).toEqual([{ ...delivery, body: new Uint8Array([4, 5]) }])
  })

  const refused = () => Promise.reject(new ConfigurationError('too large'))
  it.each([
    ['event', 'may have taken', lost, 'unconfirmed', 'unconfirmEvent'],
    ['refused', 'may have taken', lost, 'unconfirmed', 'unconfirmRefused'],
    ['event', 'has refused', refused, 'not-sent', 'unconfirmEvent'],
    ['refused', 'has refused', refused, 'not-sent', 'restoreRefused'],
  ] as const)(
    'keeps the message of the %s that its broker %s',
    async (kind, _what, send, why, end) => {
      const given = { rows: [deadLetterRow({ kind, parked: true })], sender: { send } }
      const { answer, last, transactions } = await requeued(given)
      const error = why === 'not-sent' ? 'too large' : 'connection lost'
      expect(answer).toEqual({ why, error })
      const before = end === 'restoreRefused' ? ['true', 'false'] : []
      expect(last).toEqual([end, ID, transactions[1]?.at(-2)?.[2], ...before])
    },
  )

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

  it('changes nothing where the queue is that of another broker, or is not there', async () => {
    const other = await requeued({ sender: { owns: () => false } })
    expect([other.answer, other.asked]).toEqual([{ why: 'other-queue' }, []])
    expect(other.transactions).toHaveLength(1)
    const sender = { ready: lost, send: () => Promise.reject(new Error('sent')) }
    await expect(requeued({ sender })).rejects.toThrow('connection lost')
  })

  it.each([
    ['is gone', undefined, 'unknown'],
    ['was discarded', deadLetterRow({ discarded: true }), 'unknown'],
  ])('asks no broker for a dead letter that %s', async (_what, row, why) => {
    const ready = () => Promise.reject(new Error('asked'))
    const { answer, asked } = await requeued({ rows: [row], sender: { ready } })
    expect([answer, asked]).toEqual([{ why }, []])
  })

  // Its event key is not known, so two copies could be two events.
  it('sends an event again that was not confirmed, and no refused message', async () => {
    const event = await requeued({ rows: [deadLetterRow({ state: 'w' })] })
    expect([event.answer, sent(event)]).toEqual([undefined, [delivery]])
    const row = deadLetterRow({ kind: 'refused', replay: true })
    const message = await requeued({ rows: [row] })
    expect([message.answer, sent(message)]).toEqual([{ why: 'unconfirmed' }, []])
  })

  it('sends nothing when an earlier requeue is confirmed before it frees the event', async () => {
    const { answer, asked } = await requeued({ answers: { freeEvent: [[]] } })
    expect([answer, sent({ asked })]).toEqual([{ why: 'not-dead' }, []])
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

// A copy gets another id or position from its broker: it would be another event, whose effect could happen as well.
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
])('a dead letter with a key %s is sent: %#', async (_what, over, is) => {
  const { answer, asked } = await requeued({ rows: [deadLetterRow(over)] })
  expect(answer).toEqual(is ? undefined : { why: 'broker-key' })
  expect(sent({ asked })).toHaveLength(is ? 1 : 0)
})
