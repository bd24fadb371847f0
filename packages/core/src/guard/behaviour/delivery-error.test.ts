import { expect, test } from 'vitest'
import { memoryInbox, toDelivery } from '../../memory/index.ts'
import type { Delivery } from '../../model/delivery.ts'
import { ConfigurationError } from '../../model/errors.ts'
import { createGuard } from '../guard.ts'

const good = toDelivery('a', { headers: { 'idempotency-key': 'a' } })
const { body, headers, source } = good

test.each<[string, unknown]>([
  ['it is undefined', undefined],
  ['it is null', null],
  ['it is string', 'a secret'],
  ['it is an array', [good]],
  ['it is bytes', body],
  ['`body` is undefined', {}],
  ['`body` is string', { body: 'a secret', headers, source }],
  ['`body` is an array', { body: [1], headers, source }],
  ['`headers` undefined', { body, source }],
  ['`headers` null', { body, headers: null, source }],
  ['`headers` string', { body, headers: 'a secret', source }],
  ['`headers` an iterable', { body, headers: new Headers({ 'idempotency-key': 'a' }), source }],
  ['`headers` an iterable', { body, headers: new Map(Object.entries(headers)), source }],
  ['`headers` an array', { body, headers: Object.entries(headers), source }],
  ['`source` undefined', { body, headers }],
  ['`source` object', { body, headers, source: { queue: 'orders' } }],
  ['`source` string', { body, headers, source: 'orders' }],
  ['`source` object', { body, headers, source: { broker: 'mine' } }],
  ['`producedAt` is string', { ...good, producedAt: '2026-11-24T17:00:00Z' }],
  ['`producedAt` is number', { ...good, producedAt: 1_700_000_000_000 }],
  ['`producedAt` is object', { ...good, producedAt: {} }],
  ['`producedAt` is null', { ...good, producedAt: null }],
  ['`envelope` is string', { ...good, envelope: 'a secret' }],
  ['`envelope` is an array', { ...good, envelope: [1] }],
  ['`envelope` is null', { ...good, envelope: null }],
  ['`contentType` is object', { ...good, contentType: { secret: 1 } }],
  ['`messageId` is bigint', { ...good, messageId: 5n }],
  ['`orderingKey` is number', { ...good, orderingKey: 5 }],
  ['`orderingKey` is null', { ...good, orderingKey: null }],
  // Each as the only optional field.
  ['`contentType` is object', { body, headers, source, contentType: { secret: 1 } }],
  ['`messageId` is bigint', { body, headers, source, messageId: 5n }],
  ['`orderingKey` is number', { body, headers, source, orderingKey: 5 }],
  ['`envelope` is string', { body, headers, source, envelope: 'a secret' }],
  ['`producedAt` is number', { body, headers, source, producedAt: 1_700_000_000_000 }],
])('what is no delivery fails its call, and nothing runs: %s', async (text, value) => {
  const ran: unknown[] = []
  const guard = createGuard({ consumer: 'billing', inbox: memoryInbox() }, (event) => {
    ran.push(event)
  })
  const failed = async (call: Promise<unknown>): Promise<void> => {
    const error = await call.then(
      () => undefined,
      (thrown: unknown) => thrown,
    )
    expect(error).toBeInstanceOf(ConfigurationError)
    expect(String(error)).toContain(text)
    expect(String(error)).not.toContain('secret')
  }
  await failed(guard.process(value as Delivery))
  await failed(guard.processBatch([good, value as Delivery]))
  expect(ran).toEqual([])
  expect(await guard.process(good)).toEqual({ kind: 'ack', by: 'processed' })
  expect(await guard.processBatch([good])).toEqual([{ kind: 'ack', by: 'duplicate' }])
  await guard.close()
})

test('one delivery in place of a list of them fails its call', async () => {
  const guard = createGuard({ consumer: 'billing', inbox: memoryInbox() }, () => undefined)
  await expect(guard.processBatch(good as never)).rejects.toThrow(ConfigurationError)
  await guard.close()
})
