import type { Delivery } from '../model/delivery.ts'
import type { MessageCounts } from '../model/inbox.ts'
import { messageHash } from './adapter-registry.ts'

interface Count {
  readonly times: number
  /** The last read threw, and no read is in progress. */
  readonly failed: boolean
}

/**
 * Counts of reads in this process alone: the table `suspect_messages` of the memory inbox, and what a guard without an
 * inbox remembers. Above `most` messages, the oldest are forgotten.
 */
export class LocalMessageCounts {
  readonly #counts = new Map<string, Count>()
  readonly #most: number

  constructor(most: number = Number.POSITIVE_INFINITY) {
    this.#most = most
  }

  get size(): number {
    return this.#counts.size
  }

  of(consumer: string): MessageCounts {
    const counts = this.#counts
    const hashOf = (delivery: Delivery): string => messageHash(consumer, delivery)
    return {
      start: async (deliveries) => {
        const hashes = deliveries.map(hashOf)
        const left = new Set(hashes.filter((hash) => counts.get(hash)?.failed === false))
        for (const hash of new Set(hashes)) if (!left.has(hash)) this.#add(hash, false)
        return hashes.map((hash) => (left.has(hash) ? 'left' : 'started'))
      },
      startAlone: async (delivery) => this.#add(hashOf(delivery), false),
      failed: async (deliveries) => {
        const times = new Map<string, number>()
        for (const hash of new Set(deliveries.map(hashOf))) {
          const isCounted = counts.get(hash)?.failed === false
          times.set(hash, this.#add(hash, true, isCounted ? 0 : 1))
        }
        return deliveries.map((delivery) => times.get(hashOf(delivery)) as number)
      },
      end: async (deliveries) => {
        for (const delivery of deliveries) counts.delete(hashOf(delivery))
      },
    }
  }

  #add(hash: string, failed: boolean, by = 1): number {
    const times = (this.#counts.get(hash)?.times ?? 0) + by
    this.#counts.delete(hash)
    this.#counts.set(hash, { times, failed })
    for (const oldest of this.#counts.keys()) {
      if (this.#counts.size <= this.#most) break
      this.#counts.delete(oldest)
    }
    return times
  }
}
