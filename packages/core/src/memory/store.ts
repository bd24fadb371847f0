import {
  isBeingPublished,
  type Publication,
  replayed,
  UNPUBLISHED,
} from '../model/attempt-machine.ts'
import type { EventId, OwnerToken } from '../model/brands.ts'
import type {
  DeadLetter,
  DeadLetterRef,
  PublishingEnd,
  PublishingRight,
} from '../model/dead-letter.ts'
import type { Refusal, VerdictAnswer } from '../model/inbox.ts'
import { randomBytes } from '../node.ts'
import { messageHash } from '../support/adapter-registry.ts'
import { LocalMessageCounts } from '../support/message-counts.ts'
import { toErrorText } from './attempts.ts'
import { MemoryPauses } from './pauses.ts'
import { MemoryTables, type ProcessedEventRow } from './tables.ts'

/** A row of `refused_messages`. */
interface RefusedRow extends Publication {
  readonly letter: DeadLetter
  readonly parked: boolean
}

/** The state that all guards of one memory inbox share. */
export class MemoryStore {
  readonly tables: MemoryTables = new MemoryTables()
  readonly refused: Map<string, RefusedRow> = new Map()
  readonly rules: Map<string, number> = new Map()
  readonly pauses: MemoryPauses = new MemoryPauses(this.tables)
  readonly messageCounts: LocalMessageCounts = new LocalMessageCounts()
  readonly secret: Uint8Array = randomBytes(32)
  readonly identity: string = randomBytes(16).toString('hex')

  deadLetters(): readonly DeadLetter[] {
    const buried = [...this.tables.rows].flatMap(([id, row]) => this.letterOf(id, row) ?? [])
    const refused = [...this.refused.values()].map(({ letter }) => letter)
    return [...buried, ...refused].sort((a, b) => Number(a.firstFailedAt) - Number(b.firstFailedAt))
  }

  letterOf(id: EventId, row: ProcessedEventRow | undefined): DeadLetter | undefined {
    const trouble = this.tables.troubles.get(id)
    if (row?.state !== 'dead' || trouble?.reason === undefined) return undefined
    const { event, reason, error, attempt, firstFailedAt, lastFailedAt } = trouble
    return {
      ref: { kind: 'event', id },
      consumer: row.consumer,
      key: event.key,
      reason,
      error,
      attempts: attempt,
      firstFailedAt,
      lastFailedAt,
      delivery: event.delivery,
    }
  }

  /** Takes the right to publish, unless another owner has it. */
  takePublishing(ref: DeadLetterRef, token: OwnerToken, rightMs: number): PublishingRight {
    const letter = this.#letterAt(ref)
    const publication = this.#publicationOf(ref)
    if (letter === undefined || publication === undefined) return { kind: 'gone' }
    if (publication.published) return { kind: 'already' }
    const nowMs = this.tables.nowMs()
    if (this.#isLocked(ref) || isBeingPublished(publication, nowMs)) return { kind: 'held' }
    this.#change(ref, { publishing: { token, untilMs: nowMs + rightMs } })
    return { kind: 'taken', token, letter }
  }

  endPublishing(ref: DeadLetterRef, token: OwnerToken, as: PublishingEnd): VerdictAnswer {
    if (this.#publicationOf(ref)?.publishing?.token !== token) return 'lost'
    this.#change(ref, { publishing: undefined, published: as === 'published' })
    return 'recorded'
  }

  /** As the operator's statements: a dead letter that is being published is left alone. */
  replay(ref: DeadLetterRef): boolean {
    const nowMs = this.tables.nowMs()
    const publication = this.#publicationOf(ref)
    if (publication === undefined || isBeingPublished(publication, nowMs)) return false
    if (this.#isLocked(ref)) return false
    const { kind: state, ...attempts } = replayed(nowMs)
    if (ref.kind === 'event') this.tables.change(ref.id, { state }, attempts)
    else this.#change(ref, { ...UNPUBLISHED, parked: true })
    return true
  }

  refuse(consumer: string, refusal: Refusal): DeadLetterRef {
    const { original = refusal.delivery, ...refused } = refusal
    const id = messageHash(consumer, original)
    const ref: DeadLetterRef = { kind: 'refused', id }
    const before = this.refused.get(id)
    const lastFailedAt = this.tables.now()
    const letter: DeadLetter = {
      ...refused,
      ref,
      consumer,
      error: toErrorText(refusal.error),
      attempts: 0,
      firstFailedAt: before?.letter.firstFailedAt ?? lastFailedAt,
      lastFailedAt,
    }
    const { published = false, publishing } = before ?? {}
    this.refused.set(id, { letter, parked: false, published, publishing })
    return ref
  }

  #letterAt(ref: DeadLetterRef): DeadLetter | undefined {
    if (ref.kind === 'event') return this.letterOf(ref.id, this.tables.rows.get(ref.id))
    return this.refused.get(ref.id)?.letter
  }

  #isLocked(ref: DeadLetterRef): boolean {
    return ref.kind === 'event' && this.tables.locks.holderOf(ref.id) !== undefined
  }

  /** Undefined if it is no dead letter. */
  #publicationOf(ref: DeadLetterRef): Publication | undefined {
    if (ref.kind === 'refused') return this.refused.get(ref.id)
    const isDead = this.tables.rows.get(ref.id)?.state === 'dead'
    return isDead ? this.tables.troubles.get(ref.id) : undefined
  }

  #change(ref: DeadLetterRef, change: Partial<Omit<RefusedRow, 'letter'>>): void {
    if (ref.kind === 'event') this.tables.change(ref.id, {}, change)
    const row = this.refused.get(ref.id)
    if (row !== undefined) this.refused.set(ref.id, { ...row, ...change })
  }
}
