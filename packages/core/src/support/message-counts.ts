import type { Delivery } from '../model/delivery.ts'
import type { MessageCounts } from '../model/inbox.ts'
import { deliveryNameOf, messageHash, readHash } from './adapter-registry.ts'

/** {@link MessageCounts} by the hashes of messages. Each hash is given once. */
export interface HashCounts {
  /** Answers the hashes that are counted. */
  start(hashes: readonly string[]): Promise<ReadonlySet<string>>
  startAlone(hash: string): Promise<number>
  failed(hashes: readonly string[]): Promise<ReadonlyMap<string, number>>
  end(hashes: readonly string[]): Promise<void>
}

/**
 * A read of a message that nothing identifies begins under the hash that it shares with equal messages, and fails under the
 * hash of its delivery.
 */
export function messageCountsBy(consumer: string | number, counts: HashCounts): MessageCounts {
  const toRead = (delivery: Delivery): string => readHash(consumer, delivery)
  const toMessage = (delivery: Delivery): string => messageHash(consumer, delivery)
  return {
    start: async (deliveries) => {
      const hashes = deliveries.map(toRead)
      const started = await counts.start(distinct(hashes))
      return hashes.map((hash) => (started.has(hash) ? 'started' : 'left'))
    },
    startAlone: (delivery) => counts.startAlone(toRead(delivery)),
    failed: async (deliveries) => {
      const begun = deliveries.filter(isNameLost).map(toRead)
      if (begun.length > 0) await counts.end(distinct(begun))
      const hashes = deliveries.map(toMessage)
      const times = await counts.failed(distinct(hashes))
      return deliveries.map((delivery, index) =>
        Math.max(
          times.get(hashes[index] as string) as number,
          isNameLost(delivery) ? (delivery.deliveryCount ?? 1) : 1,
        ),
      )
    },
    end: (deliveries) =>
      counts.end(distinct([toRead, toMessage].flatMap((to) => deliveries.map(to)))),
  }
}

const distinct = (hashes: readonly string[]): readonly string[] => [...new Set(hashes)]

/** A broker that gives the message back makes another name for it, so that the broker's count of it is the least. */
const isNameLost = (delivery: Delivery): boolean => deliveryNameOf(delivery)?.isStored === false

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
    return messageCountsBy(consumer, {
      start: async (hashes) => {
        const started = hashes.filter((hash) => counts.get(hash)?.failed !== false)
        for (const hash of started) this.#add(hash, false)
        return new Set(started)
      },
      startAlone: async (hash) => this.#add(hash, false),
      failed: async (hashes) =>
        new Map(
          hashes.map((hash) => {
            const isCounted = counts.get(hash)?.failed === false
            return [hash, this.#add(hash, true, isCounted ? 0 : 1)]
          }),
        ),
      end: async (hashes) => {
        for (const hash of hashes) counts.delete(hash)
      },
    })
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
