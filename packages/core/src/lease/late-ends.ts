import type { EventId, OwnerToken } from '../model/brands.ts'
import type { Held } from '../model/lease-store.ts'
import type { Runtime } from '../model/runtime.ts'

/** Limits memory. Above it, the oldest unsent ends are dropped and their leases expire. */
const REMEMBERED = 10_000
const FIRST_PAUSE_MS = 250
const LONGEST_PAUSE_MS = 5_000

interface LateEnd {
  readonly id: EventId
  readonly tell: () => Promise<unknown>
}

/**
 * Ends of claims that the store did not answer. They are sent again until it answers, however long ago the lease expired:
 * the store compares the owner token. Otherwise a short outage would look like the death of every owner in it.
 */
export class LateEnds {
  readonly #runtime: Runtime
  readonly #left = new Map<OwnerToken, LateEnd>()
  #pauseMs = FIRST_PAUSE_MS
  #cancel: (() => void) | undefined
  #telling: Promise<void> | undefined
  #isClosed = false
  #closing: Promise<void> | undefined

  constructor(runtime: Runtime) {
    this.#runtime = runtime
  }

  /** Replaces an earlier end of the same claim. */
  add({ id, ownerToken }: Held, tell: LateEnd['tell']): void {
    this.#left.set(ownerToken, { id, tell })
    const [oldest] = this.#left.keys()
    if (this.#left.size > REMEMBERED && oldest !== undefined) this.#left.delete(oldest)
    this.#schedule()
  }

  /** The store has answered. */
  told(all: readonly Held[]): void {
    if (this.#left.size === 0) return
    for (const { ownerToken } of all) this.#left.delete(ownerToken)
  }

  /** Sends what is left of these events. Undefined if nothing is. Rejects if the store still does not answer. */
  tell(all: readonly Pick<Held, 'id'>[]): Promise<unknown> | undefined {
    if (this.#left.size === 0) return undefined
    const ids = new Set(all.map(({ id }) => id))
    const open = [...this.#left.values()].filter(({ id }) => ids.has(id))
    return open.length === 0 ? undefined : tellAll(open)
  }

  /** Sends what is left once more, and then stops. A second call waits for the first. Never rejects. */
  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    this.#isClosed = true
    this.#cancel?.()
    await this.#telling
    await tellAll([...this.#left.values()]).catch(() => undefined)
  }

  #schedule(): void {
    if (this.#isClosed || this.#cancel !== undefined || this.#left.size === 0) return
    const tell = (): void => {
      this.#telling = this.#tellLeft()
    }
    this.#cancel = this.#runtime.setTimer(tell, this.#pauseMs, { keepAlive: false })
  }

  async #tellLeft(): Promise<void> {
    try {
      await tellAll([...this.#left.values()])
      this.#pauseMs = FIRST_PAUSE_MS
    } catch {
      this.#pauseMs = Math.min(LONGEST_PAUSE_MS, this.#pauseMs * 2)
    }
    this.#cancel = undefined
    this.#schedule()
  }
}

/** Rejects when all have an answer, if one has none: nothing is left in flight. */
async function tellAll(ends: readonly LateEnd[]): Promise<void> {
  const told = await Promise.allSettled(ends.map(({ tell }) => tell()))
  for (const answer of told) if (answer.status === 'rejected') throw answer.reason
}
