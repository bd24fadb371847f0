import { expect, test } from 'vitest'
import { fetchedOf } from './records.ts'

type Answer = Parameters<typeof fetchedOf>[1]

const TRANSACTIONAL = 0x10
const CONTROL = 0x20
const LOG_APPEND_TIME = 0x08
const PLACE = { topic: 'orders', partition: 3 }

interface Batch {
  readonly producerId?: bigint
  readonly attributes?: number
  readonly key?: Buffer
  readonly headers?: readonly (readonly [Buffer, Buffer | null])[]
}

/** One record at each offset, in a batch of its own. */
function answerOf(batches: readonly Batch[], abortedTransactions: readonly object[] = []): Answer {
  const records = batches.map(
    ({ attributes = 0, headers = [], key = null, producerId = 1n }, at) => ({
      ...{ firstOffset: BigInt(40 + at), lastOffsetDelta: 0, attributes, producerId },
      ...{ firstTimestamp: 1_000n, maxTimestamp: 5_000n },
      records: [
        {
          ...{ offsetDelta: 0, timestampDelta: 7n, key, value: Buffer.from('v') },
          headers,
          attributes: 0,
        },
      ],
    }),
  )
  return { abortedTransactions, records } as unknown as Answer
}

/** The first four bytes are the version and the type of a control record. */
const abortOf = (producerId: bigint): Batch => ({
  ...{ producerId, attributes: TRANSACTIONAL | CONTROL },
  key: Buffer.from([0, 0, 0, 0]),
})
const inTransaction = (producerId: bigint): Batch => ({ producerId, attributes: TRANSACTIONAL })
const offsetsOf = (answer: Answer, from = 40n) =>
  fetchedOf(PLACE, answer, from)?.records.map(({ message }) => message.offset)

// Red with the filter of the client: the end of the second transaction hides where the first one ended.
test('records of two aborted transactions of one producer are left out, those of others are not', () => {
  const batches = [
    inTransaction(1n),
    abortOf(1n),
    inTransaction(2n),
    inTransaction(1n),
    abortOf(1n),
    {},
  ]
  const aborted = [
    { producerId: 1n, firstOffset: 43n },
    { producerId: 1n, firstOffset: 40n },
  ]
  expect(offsetsOf(answerOf(batches, aborted))).toEqual(['42', '45'])
})

// Red with the filter of the client, which lets them through.
test('records of an aborted transaction are left out although its end is not in the answer', () => {
  const answer = answerOf([inTransaction(1n), {}], [{ producerId: 1n, firstOffset: 40n }])
  expect(offsetsOf(answer)).toEqual(['41'])
})

test('the next offset is behind what no consumer sees, and what came before the position is left out', () => {
  const answer = answerOf([{}, {}, abortOf(1n)])
  expect(fetchedOf(PLACE, answer, 41n)).toMatchObject({
    ...{ ...PLACE, next: 43n },
    records: [{ message: { offset: '41' } }],
  })
  expect(fetchedOf(PLACE, answer, 43n)).toBeUndefined()
  expect(fetchedOf(PLACE, answerOf([]), 41n)).toBeUndefined()
})

// The identity of `position()` contains the time: it must be that of kafkajs.
test("the time of a record is the broker's where the topic says so", () => {
  const timeOf = (attributes: number) =>
    fetchedOf(PLACE, answerOf([{ attributes }]), 40n)?.records[0]?.message.timestamp
  expect([timeOf(0), timeOf(LOG_APPEND_TIME)]).toEqual(['1007', '5000'])
})

test('repeated headers are lists, and a header may be called __proto__', () => {
  const headers = [
    [Buffer.from('a'), Buffer.from('1')],
    [Buffer.from('a'), null],
    [Buffer.from('__proto__'), Buffer.from('2')],
  ] as const
  const record = fetchedOf(PLACE, answerOf([{ headers }]), 40n)?.records[0]
  expect(Object.entries(record?.message.headers ?? {})).toEqual([
    ['a', [Buffer.from('1'), null]],
    ['__proto__', Buffer.from('2')],
  ])
})
