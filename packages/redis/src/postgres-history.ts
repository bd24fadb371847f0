import type { LeaseRegistration } from '@onceward/core/ports'
import { boundTo, type Namespace } from './keys.ts'

/** The identity is read again after this time. */
const REREAD_MS = 2_000
/** With an older identity, done marks in Redis are not believed. */
const STALE_MS = 5_000
/** Shortest time between two tries to read the identity. */
const RETRY_MS = 500

/** Which namespace holds the events, and whether its done marks may be believed. */
export interface History {
  /** For new claims. Undefined until the identity of the history is known. */
  namespace(): Namespace | undefined
  /** The namespaces that may contain held claims, newest first. */
  namespaces(): readonly Namespace[]
  believes(namespace: Namespace): boolean
  /** Its done marks are not believed any more. */
  distrust(namespace: Namespace): void
  distrusts(namespace: Namespace): boolean
  /** Resolves when an outdated identity has been read again, or when the read failed. Never rejects. */
  refresh(): Promise<void>
}

/** Without an inbox: one namespace that never changes. */
export function fixedHistory(namespace: Namespace): History {
  return {
    namespace: () => namespace,
    namespaces: () => [namespace],
    believes: () => true,
    distrust: () => undefined,
    distrusts: () => false,
    refresh: () => Promise.resolve(),
  }
}

/**
 * With an inbox. A done mark in Redis is only as good as the commit it stands for, so the namespace carries the
 * identity of the history that has the commit. After a failover, a restore or a crash of PostgreSQL the old namespace is used
 * only for claims that were taken in it.
 */
export class BoundHistory implements History {
  readonly #registration: LeaseRegistration
  readonly #unbound: Namespace
  #current: Namespace | undefined
  #previous: Namespace | undefined
  #distrusted: Namespace | undefined
  /** On the monotonic clock, taken before the read began. */
  #readAtMs = Number.NEGATIVE_INFINITY
  #triedAtMs = Number.NEGATIVE_INFINITY
  #reading: Promise<void> | undefined

  constructor(registration: LeaseRegistration, unbound: Namespace) {
    this.#registration = registration
    this.#unbound = unbound
  }

  namespace(): Namespace | undefined {
    return this.#current
  }

  namespaces(): readonly Namespace[] {
    return [this.#current, this.#previous].filter((namespace) => namespace !== undefined)
  }

  believes(namespace: Namespace): boolean {
    if (this.distrusts(namespace)) return false
    return namespace === this.#current && this.#ageMs() <= STALE_MS
  }

  distrust(namespace: Namespace): void {
    this.#distrusted = namespace
  }

  distrusts(namespace: Namespace): boolean {
    return namespace === this.#distrusted
  }

  async refresh(): Promise<void> {
    if (this.#ageMs() < REREAD_MS) return
    this.#reading ??= this.#isTooSoon() ? undefined : this.#read()
    if (this.#ageMs() > STALE_MS) await this.#reading
  }

  #ageMs(): number {
    return this.#registration.runtime.monotonic() - this.#readAtMs
  }

  #isTooSoon(): boolean {
    return this.#registration.runtime.monotonic() - this.#triedAtMs < RETRY_MS
  }

  async #read(): Promise<void> {
    const { consumer, identity, logger, runtime } = this.#registration
    const askedAtMs = runtime.monotonic()
    this.#triedAtMs = askedAtMs
    try {
      const read = await identity?.()
      if (!read) throw new Error('PostgreSQL answered no identity')
      this.#readAtMs = askedAtMs
      const bound = boundTo(read, this.#unbound)
      if (bound.name === this.#current?.name) return
      if (this.#current !== undefined) {
        logger.warn(
          { consumer },
          'PostgreSQL has another history, so done marks in Redis are ignored',
        )
      }
      this.#previous = this.#current
      this.#current = bound
    } catch (error) {
      logger.debug({ consumer, err: error }, 'the identity of PostgreSQL could not be read')
    } finally {
      this.#reading = undefined
    }
  }
}
