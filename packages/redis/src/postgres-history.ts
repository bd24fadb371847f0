import type { LeaseRegistration } from '@onceward/core'
import { boundName, type Namespace } from './keys.ts'

/** Read again this long after the last time. */
const REREAD_MS = 2_000
/** Beyond this age nothing that Redis remembers as done is believed. */
const STALE_MS = 5_000
/** After a failure it is tried again no sooner. */
const RETRY_MS = 500

/** Which namespace events are kept in, and whether what is done in it may be believed. */
export interface History {
  /** For new claims; undefined as long as no history is known. */
  namespace(): Namespace | undefined
  /** Those that held claims may be in, newest first. */
  namespaces(): readonly Namespace[]
  believes(namespace: Namespace): boolean
  /** Resolves when an identity that is too old has been read again, or could not be. */
  refresh(): Promise<void>
}

/** Redis is the truth: one namespace for ever. */
export function ownHistory(namespace: Namespace): History {
  return {
    namespace: () => namespace,
    namespaces: () => [namespace],
    believes: () => true,
    refresh: () => Promise.resolve(),
  }
}

/**
 * Redis remembers for Postgres: a done event in it is worth as much as the commit it stands for, so the namespace
 * carries the identity of the history that has the commit. After a failover, a restore or a crash the old one is not
 * looked at any more, but for claims that were taken in it.
 */
export class BoundHistory implements History {
  readonly #registration: LeaseRegistration
  readonly #unbound: Namespace
  #current: Namespace | undefined
  #previous: Namespace | undefined
  /** On the monotonic clock, of the moment before it was asked. */
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
    return namespace === this.#current && this.#ageMs() <= STALE_MS
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
      if (!read) throw new Error('PostgreSQL told no identity')
      this.#readAtMs = askedAtMs
      const name = boundName(this.#unbound.name, read)
      if (name === this.#current?.name) return
      if (this.#current !== undefined) {
        logger.warn({ consumer }, 'PostgreSQL has another history: what Redis remembers is dropped')
      }
      this.#previous = this.#current
      this.#current = { ...this.#unbound, name }
    } catch (error) {
      logger.debug({ consumer, err: error }, 'the identity of PostgreSQL could not be read')
    } finally {
      this.#reading = undefined
    }
  }
}
