import { SQSClient } from '@aws-sdk/client-sqs'
import { Test } from '@nestjs/testing'
import { OncewardModule, OncewardTesting, sqsBroker } from '@onceward/nestjs'
import { expect, test } from 'vitest'
import { Billing } from './nestjs-billing.ts'

test('charges an order once, however often it is delivered', async () => {
  const charges: unknown[] = []
  const tx = { getRepository: () => ({ insert: async (row: unknown) => charges.push(row) }) }
  const module = await OncewardTesting.module(
    Test.createTestingModule({
      imports: [OncewardModule.forRoot({ brokers: { sqs: sqsBroker(new SQSClient()) } })],
      providers: [Billing],
    }),
    { tx },
  )

  const order = { orderId: 'o-1', cents: 1999 }
  const [first, second] = await module.deliverTwice('billing', order)
  await module.close()

  expect(first).toMatchObject({ kind: 'ack', by: 'processed' })
  expect(second).toMatchObject({ kind: 'ack', by: 'duplicate' })
  expect(charges).toEqual([order])
  expect(module.inbox.sent()).toMatchObject([{ to: 'receipts', payload: order }])
})
