import type { OwnerToken } from '../model/brands.ts'
import type {
  Burial,
  ConsumerRegistration,
  CountAnswer,
  CountedEvent,
  Failure,
  IdentifiedEvent,
  Release,
  VerdictAnswer,
} from '../model/inbox.ts'
import type { DeadLetterReason } from '../model/settlement.ts'
import {
  type FailedEventRow,
  type MemoryTables,
  type ProcessedEventRow,
  RUNNING_IS_LIVE_MS,
} from './tables.ts'

/** Runs without a verdict may be as many times the attempts. */
const NO_VERDICT_FACTOR = 3

/** One consumer's short transactions: what `fail`, `bury`, `release`, `suspect` and `count` do to the tables. */
export class Attempts {
  readonly #tables: MemoryTables
  readonly #registration: ConsumerRegistration

  constructor(tables: MemoryTables, registration: ConsumerRegistration) {
    this.#tables = tables
    this.#registration = registration
  }

  async suspect(
    events: readonly IdentifiedEvent[],
    waitMs: number,
  ): Promise<readonly (CountedEvent | undefined)[] | 'held'> {
    const { locks, rows } = this.#tables
    const statement = { writes: true }
    const taken = events.map((event) => event.id)
    try {
      for (const id of taken) {
        if (!(await locks.take(id, statement, waitMs, this.#registration.runtime))) return 'held'
      }
      return events.map((event) =>
        rows.has(event.id) ? undefined : { event, ...this.#begin(event, undefined) },
      )
    } finally {
      locks.release(taken, statement)
    }
  }

  /** Decides by the row as it is now: what `classify` saw may be over. */
  count(event: IdentifiedEvent, run: 'together' | 'alone'): CountAnswer {
    if (this.#tables.locks.holderOf(event.id) !== undefined) return { kind: 'held' }
    const row = this.#tables.rows.get(event.id)
    const trouble = this.#tables.troubles.get(event.id)
    if (row === undefined || trouble === undefined) return { kind: 'changed' }
    const nowMs = this.#tables.nowMs()
    if (row.state === 'running' && nowMs - trouble.countedAtMs < RUNNING_IS_LIVE_MS) {
      return { kind: 'held' }
    }
    if (!isToBeRun(row, trouble, { run, nowMs })) return { kind: 'changed' }
    const reason = this.#spent(trouble)
    if (reason === undefined) {
      // Who had no verdict stays alone until it has one, also when this attempt is given back.
      const alone = trouble.alone || row.state === 'running'
      return { kind: 'counted', ...this.#begin(event, { ...trouble, alone }) }
    }
    this.#tables.change(
      event.id,
      { state: 'dead' },
      { ...this.#failedNow(trouble.error), reason, token: undefined, published: false },
    )
    return { kind: 'buried', reason, attempt: trouble.attempt }
  }

  fail(failure: Failure): VerdictAnswer {
    const nextTryAtMs = this.#tables.nowMs() + failure.delayMs
    return this.#conclude(failure, 'waiting', { nextTryAtMs })
  }

  bury(burial: Burial): VerdictAnswer {
    return this.#conclude(burial, 'dead', { reason: burial.reason, published: false })
  }

  release({ event, token, as }: Release): VerdictAnswer {
    const trouble = this.#owned(event, token)
    if (trouble === undefined) return 'lost'
    const attempt = Math.max(0, trouble.attempt - 1)
    const noVerdicts = trouble.noVerdicts + (as === 'no-verdict' ? 1 : 0)
    if (attempt === 0 && noVerdicts === 0 && !trouble.parked) {
      this.#tables.forget(event.id)
      return 'recorded'
    }
    this.#tables.change(
      event.id,
      { state: 'waiting' },
      {
        attempt,
        noVerdicts,
        token: undefined,
        alone: trouble.alone || as === 'no-verdict',
        nextTryAtMs: this.#tables.nowMs(),
      },
    )
    return 'recorded'
  }

  #spent(trouble: FailedEventRow): DeadLetterReason | undefined {
    const { maxAttempts } = this.#registration
    if (trouble.attempt >= maxAttempts) return 'attempts-spent'
    return trouble.noVerdicts >= NO_VERDICT_FACTOR * maxAttempts ? 'no-verdict' : undefined
  }

  /** One more attempt, with a token of its own. */
  #begin(
    event: IdentifiedEvent,
    before: FailedEventRow | undefined,
  ): { readonly token: OwnerToken; readonly attempt: number } {
    const token = this.#registration.runtime.uuid() as OwnerToken
    const attempt = (before?.attempt ?? 0) + 1
    this.#put(event, 'running', {
      ...(before ?? this.#firstTrouble(event, undefined)),
      attempt,
      token,
      countedAtMs: this.#tables.nowMs(),
    })
    return { token, attempt }
  }

  #conclude(
    verdict: Failure | Burial,
    state: 'waiting' | 'dead',
    change: Partial<FailedEventRow>,
  ): VerdictAnswer {
    const { event, token, attempt, error } = verdict
    if (token !== undefined) {
      if (this.#owned(event, token) === undefined) return 'lost'
      const cleared = { token: undefined, alone: false }
      this.#tables.change(event.id, { state }, { ...this.#failedNow(error), ...cleared, ...change })
      return 'recorded'
    }
    // After a clean run: insert … on conflict do nothing.
    const { locks, rows } = this.#tables
    if (rows.has(event.id) || locks.holderOf(event.id) !== undefined) return 'lost'
    this.#put(event, state, { ...this.#firstTrouble(event, error), attempt, ...change })
    return 'recorded'
  }

  #owned(event: IdentifiedEvent, token: OwnerToken): FailedEventRow | undefined {
    const isRunning = this.#tables.rows.get(event.id)?.state === 'running'
    const trouble = this.#tables.troubles.get(event.id)
    return isRunning && trouble?.token === token ? trouble : undefined
  }

  #put(event: IdentifiedEvent, state: ProcessedEventRow['state'], trouble: FailedEventRow): void {
    this.#tables.rows.set(event.id, {
      state,
      consumer: this.#registration.consumer,
      fingerprint: event.fingerprint,
      processedAtMs: this.#tables.nowMs(),
    })
    this.#tables.troubles.set(event.id, trouble)
  }

  #firstTrouble(event: IdentifiedEvent, error: unknown): FailedEventRow {
    const firstFailedAt = this.#tables.now()
    return {
      event,
      attempt: 0,
      noVerdicts: 0,
      countedAtMs: 0,
      nextTryAtMs: 0,
      firstFailedAt,
      parked: false,
      alone: false,
      published: false,
      ...this.#failedNow(error),
    }
  }

  #failedNow(error: unknown): Pick<FailedEventRow, 'error' | 'lastFailedAt'> {
    return { error: toErrorText(error), lastFailedAt: this.#tables.now() }
  }
}

function isToBeRun(
  { state }: ProcessedEventRow,
  { nextTryAtMs, alone }: FailedEventRow,
  { run, nowMs }: { readonly run: 'together' | 'alone'; readonly nowMs: number },
): boolean {
  if (state === 'running') return run === 'alone'
  return state === 'waiting' && nextTryAtMs <= nowMs && (run === 'alone' || !alone)
}

/** What is kept of an error. A thrown `undefined` is an error too, a missing one is none. */
export function toErrorText(error: unknown): string | undefined {
  if (error === undefined) return undefined
  return error instanceof Error ? `${error.name}: ${error.message}` : String(error)
}
