import { createHash } from 'node:crypto'
import type { Delivery } from '../model/delivery.ts'
import type { MessageCounts } from '../model/message-counts.ts'

/** The table `suspect_messages`, for all consumers. */
export class MemoryMessageCounts {
  readonly #reads = new Map<string, number>()

  of(consumer: string): MessageCounts {
    const reads = this.#reads
    return {
      start: async (deliveries) => {
        const hashes = deliveries.map((delivery) => hashOf(consumer, delivery))
        const left = new Set(hashes.filter((hash) => reads.has(hash)))
        for (const hash of hashes) if (!left.has(hash)) reads.set(hash, 1)
        return hashes.map((hash) => (left.has(hash) ? 'left' : 'started'))
      },
      startAlone: async (delivery) => {
        const hash = hashOf(consumer, delivery)
        const next = (reads.get(hash) ?? 0) + 1
        reads.set(hash, next)
        return next
      },
      end: async (deliveries) => {
        for (const delivery of deliveries) reads.delete(hashOf(consumer, delivery))
      },
    }
  }
}

/** Headers are left out, because brokers count deliveries in them. */
function hashOf(consumer: string, { body, messageId, source }: Delivery): string {
  const place = [consumer, source.broker, source.queue, source.position ?? messageId]
  return createHash('sha256').update(JSON.stringify(place)).update(body).digest('hex')
}
