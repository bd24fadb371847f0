import type { EventId } from '@onceward/core/ports'
import type { FailedEventRow, ProcessedEventRow } from '../../../packages/core/src/memory/tables.ts'
import type { Behaviour, Plan } from '../faults/plan.ts'
import type { Audit } from '../judge/audit.ts'
import type { Case } from '../judge/cases.ts'
import type { Database, History } from './database.ts'

/** Events that end dead by what their handler does. */
const DOOMED: readonly Behaviour['kind'][] = ['always-fails', 'fatal', 'swallows', 'hangs', 'kills']

/** Looks at the tables after every step: no row goes where it may not. */
export class TableWatch {
  readonly #database: Database
  readonly #audit: Audit
  readonly #plan: Plan
  #history: History
  readonly #seen = new Map<
    EventId,
    { readonly row: ProcessedEventRow; readonly trouble: FailedEventRow | undefined }
  >()

  constructor(database: Database, audit: Audit, plan: Plan) {
    this.#database = database
    this.#audit = audit
    this.#plan = plan
    this.#history = database.history
  }

  look(): void {
    const { history } = this.#database
    const { rows, troubles } = history.store.tables
    if (history !== this.#history) {
      this.#history = history
      this.#seen.clear()
      // What survives was judged when it was written.
      for (const [id, row] of rows) this.#seen.set(id, { row, trouble: troubles.get(id) })
    }
    for (const [id, row] of rows) {
      const before = this.#seen.get(id)
      const trouble = troubles.get(id)
      if (before?.row === row && before.trouble === trouble) continue
      this.#changed(this.#audit.caseOf(id), before, { row, trouble })
      this.#seen.set(id, { row, trouble })
    }
    for (const [id, { row }] of this.#seen) {
      if (rows.has(id)) continue
      const { key } = this.#audit.caseOf(id)
      if (row.state === 'done' || row.state === 'dead') this.#audit.violate(`${key} was forgotten`)
      this.#seen.delete(id)
    }
  }

  #changed(
    one: Case,
    before:
      | { readonly row: ProcessedEventRow; readonly trouble: FailedEventRow | undefined }
      | undefined,
    now: { readonly row: ProcessedEventRow; readonly trouble: FailedEventRow | undefined },
  ): void {
    const audit = this.#audit
    const from = before?.row.state
    const to = now.row.state
    if (from === 'done' && to !== 'done') audit.violate(`${one.key} went from done to ${to}`)
    if (from === 'dead' && to !== 'dead' && !one.isReplayed) {
      audit.violate(`${one.key} went from dead to ${to}`)
    }
    const effects = this.#history.of(one.id).effects.length
    if (to !== 'done' && effects > 0) audit.violate(`${one.key} is ${to} with an effect`)
    if (to === 'dead') {
      one.wasDecided = true
      if (from !== 'dead') this.#buried(one, now.trouble)
      if (now.trouble?.published === true) this.#published(one, now.trouble)
    }
    const [attempt, earlier] = [now.trouble?.attempt ?? 0, before?.trouble?.attempt ?? 0]
    const isReset = one.isReplayed && attempt === 0
    const isReleased = to === 'waiting' && attempt === earlier - 1
    if (to !== 'done' && attempt < earlier && !isReset && !isReleased) {
      audit.violate(`the attempts of ${one.key} fell from ${earlier} to ${attempt}`)
    }
  }

  /** The mark may not come before the letter, nor be set by the publisher of an earlier death. */
  #published(one: Case, { lastFailedAt }: FailedEventRow): void {
    if (one.lettersOf.has(lastFailedAt.getTime())) return
    this.#audit.violate(`${one.key} is marked as published without a letter`)
  }

  /** An innocent event ends dead only when faults met each of its attempts. */
  #buried(one: Case, trouble: FailedEventRow | undefined): void {
    const behaviour = this.#plan.events[one.index]?.behaviour
    if (behaviour === undefined || DOOMED.includes(behaviour.kind)) return
    const { maxAttempts } = this.#plan
    if (trouble?.reason === 'fatal') this.#audit.violate(`${one.key} is dead as fatal`)
    if (one.hits + one.burns + one.failures >= maxAttempts) return
    this.#audit.violate(
      `${one.key} is dead after ${one.failures} failures and ${one.hits} disturbances of at most ${maxAttempts} attempts`,
    )
  }
}
