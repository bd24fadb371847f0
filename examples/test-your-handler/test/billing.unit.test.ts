import { memoryInbox, toDelivery } from '@onceward/core/memory'
import { expect, test } from 'vitest'
import { createBilling, type Tx } from '../src/billing.ts'

test('charges an order once, however often it is delivered', async () => {
  const statements: unknown[][] = []
  const tx = { query: async (...args: unknown[]) => statements.push(args) } as unknown as Tx
  const billing = createBilling(memoryInbox(tx))
  const order = toDelivery({ orderId: 'order-1', cents: 1999 })

  expect(await billing.process(order)).toEqual({ kind: 'ack', by: 'processed' })
  expect(await billing.process(order)).toEqual({ kind: 'ack', by: 'duplicate' })
  await billing.close()

  expect(statements).toEqual([[expect.stringContaining('insert'), ['order-1', 1999]]])
})

test('a payload that the schema refuses never reaches the handler', async () => {
  const billing = createBilling(memoryInbox({} as Tx))
  const settlement = await billing.process(toDelivery({ orderId: 'order-1', cents: '19.99' }))
  await billing.close()
  expect(settlement).toMatchObject({ kind: 'dead-letter', reason: 'invalid-payload' })
})
