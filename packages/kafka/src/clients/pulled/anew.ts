import type { Runtime } from '@onceward/core/ports'
import { nameOf, type Partition } from '../../offsets.ts'

/**
 * Milliseconds after a topic was created again in which a partition that comes is read from its beginning, too. Its last
 * owner may have left before it looked, and the group may have an offset of the old topic. No member that has not looked
 * stays in the group for so long.
 */
const ANEW_MS = 120_000

/** Topics that were created again, and which of their partitions this member has read from their beginning. */
export class Anew {
  readonly #runtime: Runtime
  readonly #untilMs = new Map<string, number>()
  readonly #read = new Set<string>()

  constructor(runtime: Runtime) {
    this.#runtime = runtime
  }

  add(topic: string): void {
    this.#untilMs.set(topic, this.#runtime.monotonic() + ANEW_MS)
    for (const name of this.#read) if (name.startsWith(`${topic}/`)) this.#read.delete(name)
  }

  isToRead(partition: Partition): boolean {
    const untilMs = this.#untilMs.get(partition.topic) ?? Number.NEGATIVE_INFINITY
    return this.#runtime.monotonic() < untilMs && !this.#read.has(nameOf(partition))
  }

  wasRead(partition: Partition): void {
    this.#read.add(nameOf(partition))
  }
}
