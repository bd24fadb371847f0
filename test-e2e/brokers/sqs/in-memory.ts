import type { Guard } from '@onceward/core'
import { consumeSqs } from '@onceward/sqs'
import { HandQueue } from '../../../bench/rivals/hand-queue.ts'
import { newOrder } from '../../../bench/rivals/orders.ts'
import type { InMemoryBroker, InMemoryConsumer } from '../broker.ts'

export const MOST: InMemoryBroker['MOST'] = { promises: 31, timers: 1.4, calls: 60 }

const HIDDEN_MS = 60_000

export async function consumeInMemory(guard: Guard): Promise<InMemoryConsumer> {
  const queue = new HandQueue()
  const { client, queueUrl } = queue
  await consumeSqs(client, guard, { queueUrl })
  return {
    prepare: (count) => {
      const orders = Array.from({ length: count }, () => newOrder(HIDDEN_MS))
      return () => queue.deliver(orders)
    },
  }
}
