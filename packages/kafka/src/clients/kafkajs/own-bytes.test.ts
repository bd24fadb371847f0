import type { Settlement } from '@onceward/core'
import type { IHeaders, KafkaMessage } from 'kafkajs'
import { expect, test } from 'vitest'
import { fetchOf, message } from '../../fixtures/fetch.ts'
import { trusted } from '../../fixtures/member.ts'
import { RecordInHand } from '../record-in-hand.ts'
import { ownBytes } from './own-bytes.ts'

const ANSWER_BYTES = 1_000_000

/** Cuts a record out of the answer to a fetch, as kafkajs does. */
function cut(offset: number, key: string): KafkaMessage {
  const answer = Buffer.alloc(ANSWER_BYTES)
  const part = (text: string, at: number): Buffer =>
    answer.subarray(at, at + answer.write(text, at))
  const headers = { one: part('h', 200), many: [part('i', 210), part('j', 220)] }
  return message(offset, part(key, 0), { value: part(`{"key":"${key}"}`, 100), headers })
}

const sizeOf = (bytes: unknown): number => (bytes as Uint8Array).buffer.byteLength

const largest = ({ headers, key, value }: KafkaMessage): number =>
  Math.max(...[key, value, ...Object.values(headers ?? {}).flat()].map(sizeOf))

// Red when they are left as kafkajs made them: a partition with one deferred record kept each answer that brought a record
// of it, with all records of the other partitions, up to 10 MB for every record in hand.
test('records that stay in hand keep nothing of the answers that brought them', async () => {
  const kit = await trusted({ concurrency: 8 })
  const records = [cut(40, 'failing'), cut(41, 'failing'), cut(42, 'done')]
  const callback = kit.call(fetchOf(records))
  await kit.clock.advance(0)
  const until = (kit.clock.nowMs + 5_000) as Extract<Settlement, { kind: 'defer' }>['until']
  kit.settle(42)
  for (const offset of [40, 41]) kit.settle(offset, { kind: 'defer', reason: 'failed', until })
  await kit.clock.advance(600)
  expect([callback.ended, kit.partitionBatches.inFlight]).toEqual([true, 2])
  for (const record of records) expect(largest(record)).toBeLessThan(ANSWER_BYTES)
  await kit.clock.advance(5_000)
  const again = kit.handed.at(-1)?.delivery
  expect([again?.deliveryCount, Buffer.from(again?.body ?? []).toString()]).toEqual([
    2,
    '{"key":"failing"}',
  ])
  expect(sizeOf(again?.body)).toBeLessThan(ANSWER_BYTES)
})

test.each(['forget', 'suspect'] as const)('a run that ended keeps no delivery (%s)', (end) => {
  const item = new RecordInHand({ topic: 'orders', partition: 0, message: cut(40, 'a') }, 'c')
  const { delivery } = item
  item[end]()
  expect(item.delivery).not.toBe(delivery)
  expect(item.delivery.orderingKey).toBe('a')
  expect(item.delivery.redelivered === true).toBe(end === 'suspect')
})

test('no record is changed otherwise, odd headers and hidden records included', () => {
  const odd: unknown = {
    ['__proto__']: Buffer.from('x'),
    none: null,
    text: 'text',
    list: ['a', null],
  }
  const [seen, hidden] = [message(40, 'a', { headers: odd as IHeaders }), message(41, null)]
  const bare = Object.assign(message(42, 'b'), { value: null, headers: undefined })
  const copies = structuredClone([seen, hidden, bare].map(({ key, value }) => ({ key, value })))
  const batch = { messages: [seen], rawMessages: [seen, hidden, bare] }
  const before = hidden.value
  ownBytes(batch as never)
  expect([seen, hidden, bare].map(({ key, value }) => ({ key, value }))).toEqual(
    copies.map(({ key, value }) => ({
      key: key && Buffer.from(key),
      value: value && Buffer.from(value),
    })),
  )
  expect([hidden.value === before, bare.headers]).toEqual([false, undefined])
  expect(Object.entries(seen.headers ?? {})).toEqual([
    ['__proto__', Buffer.from('x')],
    ['none', null],
    ['text', 'text'],
    ['list', ['a', null]],
  ])
})

// Red when they are written to: kafkajs ends a consumer for good whose callback rejects with a TypeError.
test('records that a handler has frozen or changed stay as they are', () => {
  const frozen = Object.freeze(message(40, 'a'))
  const changed = { ...message(41, 'b'), headers: null }
  ownBytes({ messages: [frozen, changed] } as never)
  expect([String(frozen.key), changed.headers]).toEqual(['a', null])
})
