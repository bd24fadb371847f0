import { ConfigurationError, StoreUnavailableError } from '@onceward/core'
import type {
  Claim,
  ClaimResult,
  Held,
  HeldAnswer,
  LeaseRegistration,
  LeaseSession,
  WriteMarks,
} from '@onceward/core/ports'
import { type Finding, selfTest } from './doctor.ts'
import type { Namespace } from './keys.ts'
import type { History } from './postgres-history.ts'
import { marksWithoutRow } from './sample-marks.ts'
import type { RunScript } from './scripts.ts'
import { inBudget, LateError, type TimeBudget } from './time-budget.ts'
import {
  createForeignKeyReport,
  type OnForeignKey,
  type Transitions,
  transitionsIn,
} from './transitions.ts'

/** Longest self-test. Its first call may open the connection. */
const SELF_TEST_MS = 2_000

/** Time between two samples of the done marks. */
const SAMPLE_EVERY_MS = 60_000

/** Longest wait for the identity of Postgres. */
const REFRESH_MS = 500

export interface SessionParts {
  readonly run: RunScript
  readonly history: History
  readonly timeBudget: TimeBudget
  readonly registration: LeaseRegistration
  /** No inbox: only Redis remembers processed events. */
  readonly isTruth: boolean
  /** Beside an inbox: events that are probably new are not claimed. */
  readonly isByNeed?: boolean | undefined
}

/** One guard's use of Redis: in its namespace, within its time budget, and with a pause after a failure. */
export class GuardSession implements LeaseSession {
  readonly #parts: SessionParts
  readonly #onForeignKey: OnForeignKey
  /** By the namespace object of the history, which lives as long as that history. */
  readonly #transitions = new WeakMap<Namespace, Transitions>()
  readonly #writers = new WeakMap<Namespace, WriteMarks>()
  #isTested = false
  #testing = false
  /** Why the last self-test did not pass. */
  #failure: unknown
  /** On the monotonic clock. */
  #sampledAtMs = Number.NEGATIVE_INFINITY

  constructor(parts: SessionParts) {
    this.#parts = parts
    this.#onForeignKey = createForeignKeyReport(parts.registration)
  }

  /** With an inbox, an outage of Redis does not reject. */
  async start(): Promise<void> {
    const { isTruth, timeBudget } = this.#parts
    try {
      await this.#test()
      await this.#sampleMarks()
    } catch (error) {
      if (isTruth || error instanceof ConfigurationError) throw error
      this.#failure = error
      timeBudget.failed(error)
    }
  }

  /**
   * With `hold: 'always'` and without an inbox every event is claimed. The name of the history may have been read long ago:
   * if that history has ended since, nobody believes the marks that are written in it.
   */
  get marks(): LeaseSession['marks'] {
    return this.#parts.isByNeed === true ? () => this.#marks() : undefined
  }

  #marks(): WriteMarks | undefined {
    const { history, timeBudget } = this.#parts
    // Claims do this too, but there may be none.
    void history.refresh()
    void this.#sampleMarks()
    const namespace = history.namespace()
    if (!this.#isTested || namespace === undefined || history.distrusts(namespace)) return undefined
    const known = this.#writers.get(namespace)
    if (known !== undefined) return known
    const { remember } = this.#transitionsIn(namespace)
    const write: WriteMarks = async (done, rememberMs) => {
      timeBudget.admit()
      return timeBudget.watch(remember(done, rememberMs))
    }
    this.#writers.set(namespace, write)
    return write
  }

  async claim(claims: readonly Claim[]): Promise<readonly ClaimResult[]> {
    const { history, timeBudget } = this.#parts
    if (claims.length === 0) return []
    timeBudget.admit()
    if (!this.#isTested) this.#testAgain()
    await this.#refresh()
    const namespace = history.namespace()
    if (namespace === undefined) return claims.map(() => ({ kind: 'unknown' }))
    void this.#sampleMarks()
    const transitions = this.#transitionsIn(namespace)
    const asked = transitions.claim(claims)
    try {
      const results = await timeBudget.watch(asked)
      return history.believes(namespace) ? results : results.map(doubted)
    } catch (error) {
      releaseClaims(transitions, claims, error instanceof LateError ? asked : undefined)
      throw error
    }
  }

  renew: LeaseSession['renew'] = (held, leaseMs) =>
    this.#owned(held, (transitions, some) => transitions.renew(some, leaseMs))

  complete: LeaseSession['complete'] = (done, rememberMs) =>
    this.#owned(done, (transitions, some) => transitions.complete(some, rememberMs))

  fail: LeaseSession['fail'] = (failed) =>
    this.#owned(failed, (transitions, some) => transitions.fail(some))

  release: LeaseSession['release'] = (held) =>
    this.#owned(held, (transitions, some) => transitions.release(some))

  bury: LeaseSession['bury'] = (dead, rememberMs) =>
    this.#owned(dead, (transitions, some) => transitions.bury(some, rememberMs))

  /** Claims are looked for in the current namespace and in the one before, because a claim stays where it was taken. */
  async #owned<One extends Held>(
    all: readonly One[],
    tell: (transitions: Transitions, some: readonly One[]) => Promise<readonly HeldAnswer[]>,
  ): Promise<readonly HeldAnswer[]> {
    const { history, timeBudget } = this.#parts
    // Tried even after failures: each claim whose end Redis does not know keeps its event waiting for a lease.
    const answers = all.map((): HeldAnswer => 'lost')
    for (const namespace of history.namespaces()) {
      const open = [...all.entries()].filter(([index]) => answers[index] === 'lost')
      if (open.length === 0) break
      const transitions = this.#transitionsIn(namespace)
      const found = await timeBudget.watch(
        tell(
          transitions,
          open.map(([, one]) => one),
        ),
      )
      for (const [at, [index]] of open.entries()) answers[index] = found[at] ?? 'lost'
    }
    return answers
  }

  #transitionsIn(namespace: Namespace): Transitions {
    const known = this.#transitions.get(namespace)
    if (known !== undefined) return known
    const made = transitionsIn(this.#parts.run, namespace, this.#onForeignKey)
    this.#transitions.set(namespace, made)
    return made
  }

  /** If PostgreSQL does not answer in time, the claim continues without a fresh identity. */
  async #refresh(): Promise<void> {
    const { history, registration } = this.#parts
    const { runtime } = registration
    await inBudget(history.refresh(), { runtime, budgetMs: REFRESH_MS }).catch(() => undefined)
  }

  /** Asks PostgreSQL about a few done marks, at most once a minute. Never rejects. */
  async #sampleMarks(): Promise<void> {
    const { history, registration, run } = this.#parts
    const { consumer, logger, runtime } = registration
    const namespace = history.namespace()
    const nowMs = runtime.monotonic()
    if (namespace === undefined || nowMs - this.#sampledAtMs < SAMPLE_EVERY_MS) return
    this.#sampledAtMs = nowMs
    try {
      const sampling = marksWithoutRow({ run, namespace, registration })
      const [example] = await inBudget(sampling, { runtime, budgetMs: SELF_TEST_MS })
      if (example === undefined || !history.believes(namespace)) return
      history.distrust(namespace)
      logger.error(
        { consumer, eventId: example, remedy: 'select onceward.forget_history()' },
        'Redis has done marks of events that PostgreSQL does not have, so all done marks are ignored: rows were removed or restored without forgetHistory()',
      )
    } catch (error) {
      logger.debug({ consumer, err: error }, 'the done marks in Redis could not be sampled')
    }
  }

  /** Starts the self-test again that failed when the guard started. */
  #testAgain(): never {
    const { timeBudget, registration } = this.#parts
    if (!this.#testing) {
      this.#testing = true
      void this.#test()
        .then(timeBudget.succeeded, (error: unknown) => {
          if (error instanceof ConfigurationError) {
            registration.logger.error({ err: error }, 'Redis fails its self-test and is not used')
          }
          this.#failure = error
          timeBudget.failed(error)
        })
        .finally(() => {
          this.#testing = false
        })
    }
    throw new StoreUnavailableError(
      'Redis was not available at start; its self-test must pass before it is used.',
      { cause: this.#failure },
    )
  }

  async #test(): Promise<void> {
    const { history, isTruth, registration, run } = this.#parts
    const { consumer, logger, runtime } = registration
    await this.#refresh()
    const namespace = history.namespace()
    if (namespace === undefined)
      throw new StoreUnavailableError('The identity of PostgreSQL is not known yet.')
    const testing = selfTest({ run, namespace, isTruth })
    const found: readonly Finding[] = await inBudget(testing, { runtime, budgetMs: SELF_TEST_MS })
    for (const { finding, remedy } of found) logger.warn({ consumer, remedy }, finding)
    this.#isTested = true
  }
}

/** Without a fresh identity of the history, Redis cannot say whether an event is committed. */
function doubted(result: ClaimResult): ClaimResult {
  return result.kind === 'duplicate' || result.kind === 'conflict' ? { kind: 'unknown' } : result
}

/** Releases claims that will not run: those granted too late, and those without an answer. */
function releaseClaims(
  transitions: Transitions,
  claims: readonly Claim[],
  late: Promise<readonly ClaimResult[]> | undefined,
): void {
  const acquired = async (): Promise<readonly Claim[]> => {
    const results = await late
    return claims.filter((_, index) => !results || results[index]?.kind === 'acquired')
  }
  void acquired()
    .catch(() => claims)
    .then((held) => transitions.release(held))
    .catch(() => undefined)
}
