import { randomUUID } from 'node:crypto'
import { consumeAmqp } from '@onceward/amqp'
import type { Guard } from '@onceward/core'
import type { ConsumeMessage } from 'amqplib'
import { RecordingConnection } from '../../../packages/amqp/src/fixtures/recording-channel.ts'
import type { InMemoryBroker, InMemoryConsumer } from '../broker.ts'

export const MOST: InMemoryBroker['MOST'] = { promises: 21, timers: 1.1, calls: 75 }

/** Delivers as many messages as the prefetch of its consumers allows, and the next ones a turn after the acks. */
export async function consumeInMemory(guard: Guard): Promise<InMemoryConsumer> {
  const broker = new RecordingConnection()
  const inHand = new Set<number>()
  let prefetch = 0
  /** Of each consumer. */
  const prefetches: number[] = []
  let tag = 0
  let keys: string[] = []
  let done = (): void => undefined
  const fill = (): void => {
    const most = prefetches.reduce((sum, each) => sum + each, 0)
    for (const key of keys.splice(0, Math.max(0, most - inHand.size))) {
      tag += 1
      inHand.add(tag)
      broker.consuming.deliver(key)
    }
    if (inHand.size === 0) done()
  }
  broker.answers.set('prefetch', (count) => {
    prefetch = Number(count)
  })
  broker.answers.set('consume', () => void prefetches.push(prefetch))
  broker.answers.set('cancel', () => void prefetches.pop())
  broker.answers.set('ack', (message, isUpTo) => {
    const { deliveryTag } = (message as ConsumeMessage).fields
    for (const each of isUpTo ? inHand : [deliveryTag]) if (each <= deliveryTag) inHand.delete(each)
    setImmediate(fill)
  })
  await consumeAmqp(async () => broker.connection, guard, { queue: 'orders' })
  return {
    prepare: (count) => {
      const next = Array.from({ length: count }, () => randomUUID())
      return () =>
        new Promise<void>((resolve) => {
          done = resolve
          keys = next
          fill()
        })
    },
  }
}
