import fc from 'fast-check'
import type { IHeaders } from 'kafkajs'
import { expect, test } from 'vitest'
import { ack } from '../fixtures/ack.ts'
import { fetchOf, message } from '../fixtures/fetch.ts'
import { trusted } from '../fixtures/member.ts'
import { RecordInHand } from './record-in-hand.ts'

type Sent = readonly (readonly [name: string, value: Buffer | null])[]

/** As the decoder of kafkajs gathers headers: a repeated one becomes a list. */
const asDecoded = (sent: Sent): IHeaders => {
  let headers: Record<string, unknown> = {}
  for (const [name, value] of sent) {
    const before: unknown = Reflect.get(headers, name)
    headers = { ...headers, [name]: before === undefined ? value : [before, value].flat() }
  }
  return headers as IHeaders
}

const sentHeaders = fc.array(
  fc.tuple(
    fc.constantFrom('a', 'b', '__proto__', 'constructor', 'toString'),
    fc.option(fc.uint8Array({ maxLength: 3 }).map((bytes) => Buffer.from(bytes))),
  ),
  { maxLength: 6 },
)

// Red when the size of a header's values is read without a look at them: a null in a repeated header is a TypeError,
// which ends the consumer for good (K5), and a header called __proto__ makes the size NaN, which pauses every partition.
test('any headers of a record leave its partition consumed, and another one too', async () => {
  await fc.assert(
    fc.asyncProperty(sentHeaders, async (sent) => {
      const kit = await trusted({ concurrency: 8 })
      const odd = message(40, 'odd', { headers: asDecoded(sent) })
      const callback = kit.call(fetchOf([odd, message(41, 'even')]))
      const other = kit.call(fetchOf([message(40, 'other')], { partition: 1 }))
      await kit.clock.advance(1_000)
      expect(kit.told).toEqual([])
      for (const { settle } of kit.handed) settle(ack)
      await kit.clock.advance(600)
      expect([callback.ended, callback.error, other.ended]).toEqual([true, undefined, true])
      expect([...callback.fetch.calls, ...other.fetch.calls]).toContain('commit 42')
    }),
  )
})

test('the size of a record is that of its key, its value and all values of its headers', () => {
  const sizeOf = (...given: Parameters<typeof message>): number =>
    new RecordInHand({ topic: 'orders', partition: 0, message: message(...given) }, undefined).bytes
  const [three, five] = [Buffer.from('abc'), Buffer.from('defgh')]
  expect(sizeOf(40, three, { value: five, headers: {} })).toBe(8)
  expect(sizeOf(40, null, { value: null, headers: { one: five, many: [three, three] } })).toBe(11)
})
