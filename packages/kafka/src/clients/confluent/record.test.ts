import { createGuard, type GuardEvent, header, idempotencyKeyHeader } from '@onceward/core'
import { memoryInbox } from '@onceward/core/memory'
import { deadLetterOf } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { deadLetterMessage } from '../../dead-letter.ts'
import { toDelivery } from '../../delivery.ts'
import { toRecord } from './record.ts'
import { toHeaders } from './sender.ts'

const empty = Buffer.alloc(0)
const received = (headers: readonly Readonly<Record<string, Buffer>>[]) =>
  toDelivery(
    toRecord({
      ...{ topic: 'orders', partition: 0, offset: 7, timestamp: 1, size: 2, headers },
      ...{ key: null, value: Buffer.from('{}') },
    }),
    undefined,
  )

// Red when the key is "empty" and the record dead: the client gives a null header as a buffer of no bytes.
test('a null header finds no key, as with the other clients, and the next resolver is asked', async () => {
  const events: GuardEvent<unknown>[] = []
  const guard = createGuard(
    {
      ...{ consumer: 'billing', inbox: memoryInbox() },
      eventKey: [idempotencyKeyHeader(), header('id')],
    },
    async (event) => void events.push(event),
  )
  const delivery = received([{ 'idempotency-key': empty }, { id: Buffer.from('o-1') }])
  expect(await guard.process(delivery)).toMatchObject({ kind: 'ack' })
  expect(events).toMatchObject([{ key: 'o-1' }])
})

test('a dead letter names the headers without a value, and sends none of them as null', () => {
  const delivery = received([{ none: empty }, { some: empty }, { some: Buffer.from('1') }])
  const { headers = {} } = deadLetterMessage(deadLetterOf(delivery))
  expect(JSON.parse(String(headers['x-onceward-null-headers']))).toEqual(['none', 'some[0]'])
  // A buffer of no bytes is sent as null, and a text of none is not.
  const own = toHeaders(headers).filter((each) => 'none' in each || 'some' in each)
  expect(own).toEqual([{ none: '' }, { some: '' }, { some: Buffer.from('1') }])
})
