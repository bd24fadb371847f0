import { randomBytes } from 'node:crypto'
import type { EventId, OwnerToken } from '../model/brands.ts'
import type {
  DeadLetter,
  DeadLetterRef,
  PublishingEnd,
  PublishingRight,
} from '../model/dead-letter.ts'
import type { Refusal, VerdictAnswer } from '../model/inbox.ts'
import { messageHash } from '../support/adapter-registry.ts'
import { LocalMessageCounts } from '../support/message-counts.ts'
import { toErrorText } from './attempts.ts'
import { MemoryTables, type ProcessedEventRow, type Publishing } from './tables.ts'

/** What both kinds of dead letters say about their publication. */
interface Publication {
  readonly published: boolean
  readonly publishing?: Publishing | undefined
}

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

  /** As the operator's statements: a dead letter that is being published is left alone. */
  isBeingPublished(ref: DeadLetterRef): boolean {
    return (this.#publishingOf(ref)?.untilMs ?? 0) > this.tables.nowMs()
  }

  /** Takes the right to publish, unless another owner has it. */
  takePublishing(ref: DeadLetterRef, publishing: Publishing): PublishingRight {
    const letter = this.#letterAt(ref)
    if (letter === undefined) return { kind: 'gone' }
    if (this.#isPublished(ref)) return { kind: 'already' }
    const isLocked = ref.kind === 'event' && this.tables.locks.holderOf(ref.id) !== undefined
    if (isLocked || this.isBeingPublished(ref)) return { kind: 'held' }
    this.#change(ref, { publishing })
    return { kind: 'taken', token: publishing.token, letter }
  }

  endPublishing(ref: DeadLetterRef, token: OwnerToken, as: PublishingEnd): VerdictAnswer {
    if (this.#publishingOf(ref)?.token !== token) return 'lost'
    this.#change(ref, { publishing: undefined, published: as === 'published' })
    return 'recorded'
  }

  replay(ref: DeadLetterRef): boolean {
    if (this.isBeingPublished(ref)) return false
    const unpublished = { published: false, publishing: undefined }
    if (ref.kind === 'refused') {
      const row = this.refused.get(ref.id)
      if (row === undefined) return false
      this.refused.set(ref.id, { ...row, parked: true, ...unpublished })
      return true
    }
    if (this.tables.rows.get(ref.id)?.state !== 'dead') return false
    if (this.tables.locks.holderOf(ref.id) !== undefined) return false
    const cleared = { attempt: 0, noVerdicts: 0, token: undefined, ...unpublished }
    const nextTryAtMs = this.tables.nowMs()
    const parked = { ...cleared, nextTryAtMs, parked: true, alone: true }
    this.tables.change(ref.id, { state: 'waiting' }, parked)
    return true
  }

  refuse(consumer: string, refusal: Refusal): DeadLetterRef {
    const id = messageHash(consumer, refusal.delivery)
    const ref: DeadLetterRef = { kind: 'refused', id }
    const before = this.refused.get(id)
    const lastFailedAt = this.tables.now()
    const letter: DeadLetter = {
      ...refusal,
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

  #isPublished(ref: DeadLetterRef): boolean {
    return this.#recordOf(ref)?.published === true
  }

  #publishingOf(ref: DeadLetterRef): Publishing | undefined {
    return this.#recordOf(ref)?.publishing
  }

  #recordOf(ref: DeadLetterRef): Publication | undefined {
    return ref.kind === 'event' ? this.tables.troubles.get(ref.id) : this.refused.get(ref.id)
  }

  #change(ref: DeadLetterRef, change: Partial<Publication>): void {
    if (ref.kind === 'event') this.tables.change(ref.id, {}, change)
    const row = this.refused.get(ref.id)
    if (row !== undefined) this.refused.set(ref.id, { ...row, ...change })
  }
}
