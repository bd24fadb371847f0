import { systemRuntime } from '../concurrency/system-runtime.ts'
import { type AttemptState, knownTrouble, type Troubled } from '../model/attempt-machine.ts'
import type { EventId, Fingerprint, Json } from '../model/brands.ts'
import type { FenceMove, FenceState, PartitionFacts } from '../model/fence.ts'
import type { IdentifiedEvent, Known } from '../model/inbox.ts'
import type { CollectedMessage } from '../model/outbox.ts'
import type { Runtime } from '../model/runtime.ts'
import { fromJsonText } from '../support/json-text.ts'

/** A row of `processed_events`. */
export interface ProcessedEventRow {
  readonly state: 'done' | 'running' | 'waiting' | 'dead'
  readonly consumer: string
  readonly fingerprint: Fingerprint
  /** On the store's clock. */
  readonly processedAtMs: number
  /** JSON text, as in `event_results`. */
  readonly result?: string | undefined
}

/** A row of `failed_events`: the details of a failed event. Its state is in the row of `processed_events`. */
export interface FailedEventRow extends Omit<Troubled, 'kind'> {
  readonly event: IdentifiedEvent
  readonly error?: string | undefined
  readonly firstFailedAt: Date
  readonly lastFailedAt: Date
}

/** The holder of a row: a transaction, or a statement of its own. */
export type Holder = object

interface HeldRow {
  readonly holder: Holder
  readonly waiters: Set<() => void>
  isUnchanged?: boolean
}

/** Row locks, with waiting. */
export class RowLocks {
  readonly #held = new Map<EventId, HeldRow>()

  holderOf(id: EventId): Holder | undefined {
    return this.#held.get(id)?.holder
  }

  /** The holder keeps the lock of a row that it does not change: inserts find that row and do not wait for it. */
  leaveUnchanged(id: EventId): void {
    const held = this.#held.get(id)
    if (held !== undefined) held.isUnchanged = true
  }

  isUnchanged(id: EventId): boolean {
    return this.#held.get(id)?.isUnchanged === true
  }

  tryTake(id: EventId, holder: Holder): boolean {
    const held = this.#held.get(id)
    if (held !== undefined) return held.holder === holder
    this.#held.set(id, { holder, waiters: new Set() })
    return true
  }

  /** Waits at most `waitMs`. False if the row was held all that time. */
  async take(id: EventId, holder: Holder, waitMs: number, runtime: Runtime): Promise<boolean> {
    const endsAt = runtime.monotonic() + waitMs
    while (!this.tryTake(id, holder)) {
      const remainingMs = endsAt - runtime.monotonic()
      if (remainingMs <= 0) return false
      await this.#released(id, remainingMs, runtime)
    }
    return true
  }

  release(ids: Iterable<EventId>, holder: Holder): void {
    for (const id of ids) {
      const held = this.#held.get(id)
      if (held?.holder !== holder) continue
      this.#held.delete(id)
      for (const wake of held.waiters) wake()
    }
  }

  #released(id: EventId, limitMs: number, runtime: Runtime): Promise<void> {
    return new Promise((resolve) => {
      const waiters = this.#held.get(id)?.waiters
      if (waiters === undefined) return resolve()
      const wake = (): void => {
        cancel()
        waiters.delete(wake)
        resolve()
      }
      const cancel = runtime.setTimer(wake, limitMs)
      waiters.add(wake)
    })
  }
}

/** What is kept of a partition whose offsets are the identity of its events. */
export interface PartitionRow {
  readonly of: PartitionFacts
  readonly state: FenceState
}

/** Whether the owner of the move is the last one that has claimed the partition, and knows where it stands. */
export function isMoving({ partitions }: MemoryTables, { epoch, id, old }: FenceMove): boolean {
  const state = partitions.get(id)?.state
  return state?.epoch === epoch && state.next === old
}

/** The tables, with committed data only. Each transaction keeps its own uncommitted changes. */
export class MemoryTables {
  readonly rows: Map<EventId, ProcessedEventRow> = new Map()
  readonly troubles: Map<EventId, FailedEventRow> = new Map()
  readonly outbox: CollectedMessage[] = []
  readonly partitions: Map<EventId, PartitionRow> = new Map()
  readonly locks: RowLocks = new RowLocks()
  #clock: Runtime | undefined

  /** The store has one clock: the clock of the guard that opened it first. */
  setClock(runtime: Runtime): void {
    this.#clock ??= runtime
  }

  nowMs(): number {
    return (this.#clock ?? systemRuntime).monotonic()
  }

  now(): Date {
    return new Date((this.#clock ?? systemRuntime).now())
  }

  known(id: EventId): Known {
    const row = this.rows.get(id)
    if (row === undefined) return { kind: 'absent' }
    const { fingerprint, result } = row
    if (row.state === 'done') {
      const ageMs = this.nowMs() - row.processedAtMs
      return { kind: 'done', fingerprint, ageMs, result: result && (fromJsonText(result) as Json) }
    }
    const state = this.stateOf(id)
    if (state.kind === 'absent' || state.kind === 'done') return { kind: 'absent' }
    return { ...knownTrouble(state, this.nowMs()), fingerprint }
  }

  /** The event as the table of attempts sees it. */
  stateOf(id: EventId): AttemptState {
    const kind = this.rows.get(id)?.state
    const trouble = this.troubles.get(id)
    if (kind === 'done' || kind === undefined || trouble === undefined) {
      return { kind: kind === 'done' ? 'done' : 'absent' }
    }
    return { ...trouble, kind }
  }

  move({ id, next, open }: FenceMove): void {
    const row = this.partitions.get(id)
    if (row !== undefined) this.partitions.set(id, { ...row, state: { ...row.state, next, open } })
  }

  change(id: EventId, row: Partial<ProcessedEventRow>, trouble: Partial<FailedEventRow>): void {
    const oldRow = this.rows.get(id)
    const oldTrouble = this.troubles.get(id)
    if (oldRow !== undefined) this.rows.set(id, { ...oldRow, ...row })
    if (oldTrouble !== undefined) this.troubles.set(id, { ...oldTrouble, ...trouble })
  }

  forget(id: EventId): void {
    this.rows.delete(id)
    this.troubles.delete(id)
  }
}
