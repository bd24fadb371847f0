import { decideCount } from '../model/attempt-rules.ts'
import type { OwnerToken } from '../model/brands.ts'
import { isError } from '../model/errors.ts'
import type {
  Burial,
  ConsumerRegistration,
  CountAnswer,
  CountedEvent,
  Failure,
  IdentifiedEvent,
  ParkAnswer,
  Release,
  VerdictAnswer,
} from '../model/inbox.ts'
import { isConflict } from '../model/state-machine.ts'
import type { FailedEventRow, MemoryTables, ProcessedEventRow } from './tables.ts'

/** One consumer's short transactions: how `fail`, `bury`, `release`, `suspect` and `count` change the tables. */
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
    const statement = {}
    const taken = events.map((event) => event.id)
    try {
      for (const id of taken) {
        if (locks.isUnchanged(id)) continue
        if (!(await locks.take(id, statement, waitMs, this.#registration.runtime))) return 'held'
      }
      return events.map((event) =>
        rows.has(event.id) ? undefined : { event, ...this.#begin(event, undefined) },
      )
    } finally {
      locks.release(taken, statement)
    }
  }

  /** A row that is committed is not waited for, unless it gets this delivery. */
  async park(event: IdentifiedEvent, waitMs: number): Promise<ParkAnswer> {
    const { locks, rows, troubles } = this.#tables
    const { id } = event
    const isUnparked = (): boolean => {
      const state = rows.get(id)?.state
      return (state === 'waiting' || state === 'running') && troubles.get(id)?.parked !== true
    }
    if (rows.has(id) && !(isUnparked() && this.#isSame(event))) return this.#known(event)
    const statement = {}
    if (!(await locks.take(id, statement, waitMs, this.#registration.runtime))) {
      return { kind: 'held' }
    }
    try {
      if (!rows.has(id)) {
        const nextTryAtMs = this.#tables.nowMs()
        const trouble = this.#firstTrouble(event, undefined)
        this.#put(event, 'waiting', { ...trouble, nextTryAtMs, parked: true })
        return { kind: 'parked' }
      }
      if (!(isUnparked() && this.#isSame(event))) return this.#known(event)
      const before = troubles.get(id)?.event ?? event
      const stored = { ...before, delivery: event.delivery }
      this.#tables.change(id, {}, { parked: true, event: stored })
      return { kind: 'parked' }
    } finally {
      locks.release([id], statement)
    }
  }

  #isSame({ fingerprint, id }: IdentifiedEvent): boolean {
    const row = this.#tables.rows.get(id)
    return row !== undefined && !isConflict(row.fingerprint, fingerprint)
  }

  #known({ id }: IdentifiedEvent): ParkAnswer {
    const known = this.#tables.known(id)
    return known.kind === 'absent' ? { kind: 'held' } : { kind: 'known', known }
  }

  /** Decides by the current row, which may have changed since `classify` read it. */
  count(event: IdentifiedEvent, run: 'together' | 'alone'): CountAnswer {
    const state = this.#tables.rows.get(event.id)?.state
    // A row that another transaction has inserted is not visible before its commit.
    if (state === undefined) return { kind: 'changed' }
    if (this.#tables.locks.holderOf(event.id) !== undefined) return { kind: 'held' }
    const trouble = this.#tables.troubles.get(event.id)
    if (trouble === undefined) return { kind: 'changed' }
    const { noVerdicts } = trouble
    const { maxAttempts = this.#registration.maxAttempts } = event
    const known = this.#tables.known(event.id)
    const decision = decideCount(known, { noVerdicts, run, maxAttempts })
    if (decision.kind === 'counted') {
      // An event without a verdict runs alone until it has one, even if this attempt is released.
      const alone = trouble.alone || state === 'running'
      return { kind: 'counted', ...this.#begin(event, { ...trouble, alone }) }
    }
    if (decision.kind === 'buried') {
      const { reason } = decision
      const buried = { reason, token: undefined, published: false, publishing: undefined }
      this.#tables.change(
        event.id,
        { state: 'dead' },
        { ...this.#failedNow(trouble.error), ...buried },
      )
    }
    return decision
  }

  fail(failure: Failure): VerdictAnswer {
    const nextTryAtMs = this.#tables.nowMs() + failure.delayMs
    return this.#conclude(failure, 'waiting', { nextTryAtMs })
  }

  bury(burial: Burial): VerdictAnswer {
    const { reason } = burial
    return this.#conclude(burial, 'dead', { reason, published: false, publishing: undefined })
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

  /** Counts one more attempt, with a token of its own. */
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
    // After a clean run: like `insert … on conflict do nothing`.
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

/** The stored text of an error. Undefined if there is no error. */
export function toErrorText(error: unknown): string | undefined {
  if (error === undefined) return undefined
  return isError(error) ? `${error.name}: ${error.message}` : String(error)
}
