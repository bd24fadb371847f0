import { deadLetterOf } from '@onceward/testing/adapter'
import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { deadLetterMessage } from './dead-letter.ts'
import { type KafkaRecord, kafkaMessage, toDelivery } from './delivery.ts'
import { message } from './fixtures/fetch.ts'

const bytes = fc.uint8Array({ maxLength: 40 }).map((all) => Buffer.from(all))
const nullable = fc.option(bytes, { nil: null })
const name = fc.oneof(
  // `toStrictEqual` takes a header called "constructor" for the type of the object.
  fc.string({ unit: 'binary', maxLength: 255 }).filter((own) => own !== 'constructor'),
  fc.constantFrom('', '__proto__', '7', 'Trace', 'trace', 'x-onceward-own', 'ä'.repeat(127)),
)
const value = fc.oneof(nullable, fc.array(nullable, { minLength: 2, maxLength: 4 }))
const headers = fc
  .array(fc.tuple(name, value), { maxLength: 6 })
  .map((entries) => Object.fromEntries(entries))

/** Every record that a log can hold, as kafkajs reads it. */
const record = fc
  .record({
    key: nullable,
    value: nullable,
    headers,
    timestamp: fc.bigInt({ min: -1n, max: 2n ** 62n }),
  })
  .map(
    ({ timestamp, ...parts }): KafkaRecord => ({
      topic: 'orders',
      partition: 2,
      message: {
        ...message(41, null),
        ...parts,
        timestamp: String(timestamp),
      } as KafkaRecord['message'],
    }),
  )

test('every message comes back whole from its stored delivery, and dies as itself', () => {
  fc.assert(
    fc.property(record, (raw) => {
      const live = toDelivery(raw, 'cluster-1')
      const stored = { ...live, raw: undefined, body: new Uint8Array(live.body) }
      expect(kafkaMessage(stored)).toStrictEqual(raw)
      expect(deadLetterMessage(deadLetterOf(stored))).toStrictEqual(
        deadLetterMessage(deadLetterOf(live)),
      )
      expect(Object.keys(kafkaMessage(stored)?.message.headers ?? {})).toEqual(
        Object.keys(raw.message.headers ?? {}),
      )
    }),
  )
})

test('a dead letter has the key, the value and every header of its record', () => {
  fc.assert(
    fc.property(record, (raw) => {
      const dead = deadLetterMessage(deadLetterOf(toDelivery(raw, undefined)))
      expect([dead.key, dead.value]).toEqual([raw.message.key, raw.message.value])
      for (const [name, value] of Object.entries(raw.message.headers ?? {})) {
        const sent = Object.entries(dead.headers ?? {}).find(([sent]) => sent === name)?.[1]
        const empty = (one: unknown): unknown => one ?? Buffer.alloc(0)
        expect(sent).toEqual(Array.isArray(value) ? value.map(empty) : empty(value))
      }
    }),
  )
})

test('kafkajs cannot send a header without a value: it goes empty, and the dead letter says which', () => {
  const own = { none: null, some: [Buffer.of(1), null, Buffer.alloc(0)], empty: Buffer.alloc(0) }
  const raw = {
    topic: 'orders',
    partition: 0,
    message: message(1, null, { headers: own as never }),
  }
  const { headers = {} } = deadLetterMessage(deadLetterOf(toDelivery(raw, undefined)))
  expect(JSON.parse(String(headers['x-onceward-null-headers']))).toEqual(['none', 'some[1]'])
  const sent = { headers: { 'x-onceward-null-headers': 'old', own: Buffer.of(1) } }
  const again = { ...raw, message: message(1, null, sent) }
  const second = deadLetterMessage(deadLetterOf(toDelivery(again, undefined)))
  expect(second.headers).not.toHaveProperty('x-onceward-null-headers')
})
