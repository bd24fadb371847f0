import type { MessageCounts } from '../model/inbox.ts'
import { messageHash } from '../support/adapter-registry.ts'

/** The table `suspect_messages`, for all consumers. */
export class MemoryMessageCounts {
  readonly #reads = new Map<string, number>()

  of(consumer: string): MessageCounts {
    const reads = this.#reads
    return {
      start: async (deliveries) => {
        const hashes = deliveries.map((delivery) => messageHash(consumer, delivery))
        const left = new Set(hashes.filter((hash) => reads.has(hash)))
        for (const hash of hashes) if (!left.has(hash)) reads.set(hash, 1)
        return hashes.map((hash) => (left.has(hash) ? 'left' : 'started'))
      },
      startAlone: async (delivery) => {
        const hash = messageHash(consumer, delivery)
        const next = (reads.get(hash) ?? 0) + 1
        reads.set(hash, next)
        return next
      },
      end: async (deliveries) => {
        for (const delivery of deliveries) reads.delete(messageHash(consumer, delivery))
      },
    }
  }
}
