import { memoryInbox, toDelivery } from '@onceward/core/memory'
import { expect, test } from 'vitest'
import { createBilling, type Tx } from './billing.ts'

test('charges an order once, however often it is delivered', async () => {
  const statements: unknown[][] = []
  const tx = { query: async (...args: unknown[]) => statements.push(args) } as unknown as Tx
  const billing = createBilling(memoryInbox(tx))
  const delivery = toDelivery({ orderId: 'o-1', cents: 1999 })

  const first = await billing.process(delivery)
  const second = await billing.process(delivery)
  await billing.close()

  expect(first).toEqual({ kind: 'ack', by: 'processed' })
  expect(second).toEqual({ kind: 'ack', by: 'duplicate' })
  expect(statements).toHaveLength(1)
})
