import { randomUUID } from 'node:crypto'
import { EventEmitter } from 'node:events'
import type { Guard } from '@onceward/core'
import { wrapKafka } from '@onceward/kafka'
import { fetchOf, message } from '../../../packages/kafka/src/fixtures/fetch.ts'
import type { InMemoryBroker, InMemoryConsumer } from '../broker.ts'

export const MOST: InMemoryBroker['MOST'] = { promises: 21, timers: 1.1, calls: 67 }

const EVENTS = ['CRASH', 'DISCONNECT', 'FETCH', 'GROUP_JOIN', 'HEARTBEAT', 'REBALANCING', 'STOP']

const PARTITION = 0

/** One partition, whose records come in one fetch. */
export async function consumeInMemory(guard: Guard): Promise<InMemoryConsumer> {
  const consumer = Object.assign(new EventEmitter(), {
    events: Object.fromEntries(EVENTS.map((name) => [name, name])),
    pause: () => undefined,
    resume: () => undefined,
  })
  const { eachBatch } = wrapKafka(consumer as never, guard)
  const payload = { memberId: 'm-1', memberAssignment: { orders: [PARTITION] } }
  consumer.emit('GROUP_JOIN', { payload })
  let offset = 0
  const prepare: InMemoryConsumer['prepare'] = (count) => {
    const messages = Array.from({ length: count }, () => {
      offset += 1
      return message(offset, randomUUID())
    })
    const fetch = fetchOf(messages, { partition: PARTITION })
    return async () => {
      await eachBatch?.(fetch.payload)
    }
  }
  return { prepare }
}
