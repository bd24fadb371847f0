import {
  type Claim,
  type ClaimResult,
  ConfigurationError,
  type Held,
  type HeldAnswer,
  type LeaseRegistration,
  type LeaseSession,
  StoreUnavailableError,
} from '@onceward/core'
import { type Finding, selfTest } from './doctor.ts'
import { createForeignReport, type OnForeign } from './foreign-keys.ts'
import type { History } from './postgres-history.ts'
import type { RunBatch } from './run-script.ts'
import { inBudget, LateError, type Patience } from './time-budget.ts'
import { type Verbs, verbsOf } from './transitions.ts'

/** The self-test may open the connection. */
const SELF_TEST_MS = 2_000

/** Longest wait for the identity of Postgres. */
const REFRESH_MS = 500

export interface SessionParts {
  readonly run: RunBatch
  readonly history: History
  readonly patience: Patience
  readonly registration: LeaseRegistration
  /** No inbox: nobody else remembers. */
  readonly isTruth: boolean
}

/** One guard's use of Redis: within its budget, in its namespace, and left alone when it fails. */
export class RedisSession implements LeaseSession {
  readonly #parts: SessionParts
  readonly #onForeign: OnForeign
  #isTested = false
  #testing = false

  constructor(parts: SessionParts) {
    this.#parts = parts
    this.#onForeign = createForeignReport(parts.registration)
  }

  /** Never rejects for an outage where there is an inbox. */
  async start(): Promise<void> {
    const { isTruth, patience } = this.#parts
    await this.#refresh()
    try {
      await this.#test()
    } catch (error) {
      if (isTruth || error instanceof ConfigurationError) throw error
      patience.failed(error)
    }
  }

  async claim(claims: readonly Claim[]): Promise<readonly ClaimResult[]> {
    const { history, patience, run } = this.#parts
    if (claims.length === 0) return []
    patience.admit()
    if (!this.#isTested) this.#testAgain()
    await this.#refresh()
    const namespace = history.namespace()
    if (namespace === undefined) return claims.map(() => ({ kind: 'unknown' }))
    const verbs = verbsOf(run, namespace, this.#onForeign)
    const asked = verbs.claim(claims)
    try {
      const results = await patience.watch(asked)
      return history.believes(namespace) ? results : results.map(doubted)
    } catch (error) {
      giveBack(verbs, claims, error instanceof LateError ? asked : undefined)
      throw error
    }
  }

  renew: LeaseSession['renew'] = (held, leaseMs) =>
    this.#owned(held, (verbs, some) => verbs.renew(some, leaseMs))

  complete: LeaseSession['complete'] = (done, rememberMs) =>
    this.#owned(done, (verbs, some) => verbs.complete(some, rememberMs))

  fail: LeaseSession['fail'] = (failed) => this.#owned(failed, (verbs, some) => verbs.fail(some))

  release: LeaseSession['release'] = (held) =>
    this.#owned(held, (verbs, some) => verbs.release(some))

  bury: LeaseSession['bury'] = (dead, rememberMs) =>
    this.#owned(dead, (verbs, some) => verbs.bury(some, rememberMs))

  /** A held claim is in the namespace it was taken in, and that may be the one before. */
  async #owned<One extends Held>(
    all: readonly One[],
    tell: (verbs: Verbs, some: readonly One[]) => Promise<readonly HeldAnswer[]>,
  ): Promise<readonly HeldAnswer[]> {
    const { history, isTruth, patience, run } = this.#parts
    if (all.length === 0) return []
    // Where Redis is the truth, what an owner has to say is tried however bad it looks.
    if (!isTruth) patience.admit()
    const answers = all.map((): HeldAnswer => 'lost')
    for (const namespace of history.namespaces()) {
      const open = [...all.entries()].filter(([index]) => answers[index] === 'lost')
      if (open.length === 0) break
      const verbs = verbsOf(run, namespace, this.#onForeign)
      const told = await patience.watch(
        tell(
          verbs,
          open.map(([, one]) => one),
        ),
      )
      for (const [place, [index]] of open.entries()) answers[index] = told[place] ?? 'lost'
    }
    return answers
  }

  /** A Postgres that does not answer is no reason to wait before it is asked for more. */
  async #refresh(): Promise<void> {
    const { history, registration } = this.#parts
    const { runtime } = registration
    await inBudget(history.refresh(), { runtime, budgetMs: REFRESH_MS }).catch(() => undefined)
  }

  /** Redis was away when the guard started. */
  #testAgain(): never {
    const { patience, registration } = this.#parts
    if (!this.#testing) {
      this.#testing = true
      void this.#test()
        .then(patience.succeeded, (error: unknown) => {
          if (error instanceof ConfigurationError) {
            registration.logger.error({ err: error }, 'Redis cannot be used')
          }
          patience.failed(error)
        })
        .finally(() => {
          this.#testing = false
        })
    }
    throw new StoreUnavailableError('Redis is being tested before it is used.')
  }

  async #test(): Promise<void> {
    const { history, isTruth, registration, run } = this.#parts
    const { consumer, logger, runtime } = registration
    const namespace = history.namespace()
    if (namespace === undefined) throw new StoreUnavailableError('No history of Postgres is known.')
    const testing = selfTest({ run, namespace, isTruth })
    const found: readonly Finding[] = await inBudget(testing, { runtime, budgetMs: SELF_TEST_MS })
    for (const { finding, remedy } of found) logger.warn({ consumer, remedy }, finding)
    this.#isTested = true
  }
}

/** Without a fresh identity of the history, what is said of a commit in it is no answer. */
function doubted(result: ClaimResult): ClaimResult {
  return result.kind === 'duplicate' || result.kind === 'conflict' ? { kind: 'unknown' } : result
}

/** Claims that nobody will run: those that came late, and those of which no answer came. */
function giveBack(
  verbs: Verbs,
  claims: readonly Claim[],
  late: Promise<readonly ClaimResult[]> | undefined,
): void {
  const acquired = async (): Promise<readonly Claim[]> => {
    const results = await late
    return claims.filter((_, index) => !results || results[index]?.kind === 'acquired')
  }
  void acquired()
    .catch(() => claims)
    .then((held) => verbs.release(held))
    .catch(() => undefined)
}
