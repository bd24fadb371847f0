import { randomUUID } from 'node:crypto'
import { headers } from '@nats-io/transport-node'
import type { Guard } from '@onceward/core'
import { consumeNats } from '@onceward/nats'
import type { InMemoryBroker, InMemoryConsumer } from '../broker.ts'

export const MOST: InMemoryBroker['MOST'] = { promises: 29, timers: 1.2, calls: 65 }

type Callback = (error: null, message: object) => void

const CONFIG = {
  STREAM: { created: '', config: { retention: 'workqueue', storage: 'file', num_replicas: 3 } },
  CONSUMER: { config: { ack_policy: 'explicit', ack_wait: 60e9, max_deliver: -1 } },
}

/** Answers a pull request with what is there, or when the next messages come. */
export async function consumeInMemory(guard: Guard): Promise<InMemoryConsumer> {
  let waiting: object[] = []
  let left = 0
  let sequence = 0
  let callback: Callback = () => undefined
  let asked: { readonly batch: number; readonly reply: string } | undefined
  let done = (): void => undefined
  const answer = (): void => {
    if (asked === undefined || waiting.length === 0) return
    const { batch, reply } = asked
    asked = undefined
    const messages = waiting.splice(0, batch)
    for (const message of messages) callback(null, message)
    if (messages.length < batch) callback(null, { subject: reply, headers: { code: 404 } })
  }
  const client = {
    isClosed: () => false,
    status: () => ({
      [Symbol.asyncIterator]: () => ({ next: () => new Promise(() => undefined) }),
    }),
    flush: async () => undefined,
    request: async (subject: string) => ({
      json: () => CONFIG[subject.includes('STREAM.INFO') ? 'STREAM' : 'CONSUMER'],
    }),
    subscribe: (_subject: string, options: { callback: Callback }) => {
      callback = options.callback
      return { isClosed: () => false, unsubscribe: () => undefined }
    },
    publish: (_subject: string, payload: string, options?: { reply: string }) => {
      if (options !== undefined) {
        asked = { batch: JSON.parse(payload).batch, reply: options.reply }
        setImmediate(answer)
      } else if (payload === '+ACK') {
        left -= 1
        if (left === 0) done()
      }
    },
  }
  await consumeNats(client as never, guard, { stream: 'orders', consumer: 'billing' })
  return {
    prepare: (count) => {
      const messages = Array.from({ length: count }, () => {
        sequence += 1
        const key = randomUUID()
        const named = headers()
        named.set('idempotency-key', key)
        return {
          ...{
            subject: 'orders.placed',
            headers: named,
            data: Buffer.from(JSON.stringify({ key })),
          },
          reply: `$JS.ACK.orders.billing.1.${sequence}.${sequence}.1700000000000000000.0`,
        }
      })
      return () =>
        new Promise<void>((resolve) => {
          done = resolve
          left = count
          waiting = messages
          answer()
        })
    },
  }
}
