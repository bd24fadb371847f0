import {
  type AttemptAnswer,
  type AttemptCommand,
  attemptStep,
  type Remembered,
  type Step,
} from '../model/attempt-machine.ts'
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
import type { FailedEventRow, MemoryTables } from './tables.ts'

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
    const { locks } = this.#tables
    const statement = {}
    const taken = events.map((event) => event.id)
    try {
      for (const id of taken) {
        if (locks.isUnchanged(id)) continue
        if (!(await locks.take(id, statement, waitMs, this.#registration.runtime))) return 'held'
      }
      return events.map((event) => {
        const answer = this.#step(event, { kind: 'suspect', token: this.#newToken() })
        if (answer.kind !== 'counted') return undefined
        return { event, token: answer.token, attempt: answer.attempt }
      })
    } finally {
      locks.release(taken, statement)
    }
  }

  /** A row that is committed is not waited for, unless it gets this delivery. */
  async park(event: IdentifiedEvent, waitMs: number): Promise<ParkAnswer> {
    const { locks, rows, troubles } = this.#tables
    const { fingerprint, id } = event
    const decide = (): Step<'known' | 'parked'> => {
      const row = rows.get(id)
      const isOther = row !== undefined && isConflict(row.fingerprint, fingerprint)
      return this.#decide(event, { kind: 'park', isConflict: isOther })
    }
    if (decide().answer === 'known') return this.#known(event)
    const statement = {}
    if (!(await locks.take(id, statement, waitMs, this.#registration.runtime))) {
      return { kind: 'held' }
    }
    try {
      const { answer, next } = decide()
      if (answer === 'known') return this.#known(event)
      const before = troubles.get(id)?.event ?? event
      this.#write(event, next, { event: { ...before, delivery: event.delivery } })
      return { kind: 'parked' }
    } finally {
      locks.release([id], statement)
    }
  }

  #known({ id }: IdentifiedEvent): ParkAnswer {
    const known = this.#tables.known(id)
    return known.kind === 'absent' ? { kind: 'held' } : { kind: 'known', known }
  }

  /** Decides by the current row, which may have changed since `classify` read it. */
  count(event: IdentifiedEvent, run: 'together' | 'alone'): CountAnswer {
    const { locks, rows } = this.#tables
    // A row that another transaction has inserted is not visible before its commit.
    if (rows.has(event.id) && locks.holderOf(event.id) !== undefined) return { kind: 'held' }
    const { maxAttempts = this.#registration.maxAttempts } = event
    return this.#step(event, { kind: 'count', token: this.#newToken(), run, maxAttempts })
  }

  fail({ event, error, ...failure }: Failure): VerdictAnswer {
    return this.#conclude(event, error, { ...failure, kind: 'fail' })
  }

  bury({ event, error, ...burial }: Burial): VerdictAnswer {
    return this.#conclude(event, error, { ...burial, kind: 'bury' })
  }

  release({ event, ...release }: Release): VerdictAnswer {
    return this.#step(event, { ...release, kind: 'release' })
  }

  #conclude(
    event: IdentifiedEvent,
    error: unknown,
    verdict: AttemptCommand<'fail' | 'bury'>,
  ): VerdictAnswer {
    // After a clean run: like `insert … on conflict do nothing`.
    const isHeld = this.#tables.locks.holderOf(event.id) !== undefined
    if (verdict.token === undefined && isHeld) return 'lost'
    const text = toErrorText(error)
    // A deferral has no error, and the one before it stays.
    const failed = {
      ...(text === undefined ? {} : { error: text }),
      lastFailedAt: this.#tables.now(),
    }
    return this.#step(event, verdict, failed)
  }

  #newToken(): OwnerToken {
    return this.#registration.runtime.uuid() as OwnerToken
  }

  #decide<Kind extends AttemptCommand['kind']>(
    { id }: IdentifiedEvent,
    command: AttemptCommand<Kind>,
  ): Step<AttemptAnswer<Kind>> {
    return attemptStep(this.#tables.stateOf(id), command, this.#tables.nowMs())
  }

  #step<Kind extends AttemptCommand['kind']>(
    event: IdentifiedEvent,
    command: AttemptCommand<Kind>,
    details: Partial<FailedEventRow> = {},
  ): AttemptAnswer<Kind> {
    const { answer, next } = this.#decide(event, command)
    this.#write(event, next, details)
    return answer
  }

  #write(
    event: IdentifiedEvent,
    next: Remembered | undefined,
    details: Partial<FailedEventRow>,
  ): void {
    if (next === undefined) return
    if (next.kind === 'absent') {
      this.#tables.forget(event.id)
      return
    }
    const { consumer } = this.#registration
    const { rows, troubles } = this.#tables
    const { kind: state, ...attempts } = next
    const now = this.#tables.now()
    const row = { consumer, fingerprint: event.fingerprint, processedAtMs: this.#tables.nowMs() }
    const first = { event, firstFailedAt: now, lastFailedAt: now }
    const died = state === 'dead' && { lastFailedAt: now }
    rows.set(event.id, { ...row, ...rows.get(event.id), state })
    troubles.set(event.id, {
      ...first,
      ...troubles.get(event.id),
      ...attempts,
      ...died,
      ...details,
    })
  }
}

/** The stored text of an error. Undefined if there is no error. */
export function toErrorText(error: unknown): string | undefined {
  if (error === undefined) return undefined
  return isError(error) ? `${error.name}: ${error.message}` : String(error)
}
