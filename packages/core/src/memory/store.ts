import { createHash, randomBytes } from 'node:crypto'
import type { EventId } from '../model/brands.ts'
import type { Delivery } from '../model/delivery.ts'
import type { DeadLetter, DeadLetterRef, Refusal } from '../model/inbox.ts'
import { toErrorText } from './attempts.ts'
import { MemoryTables, type ProcessedEventRow } from './tables.ts'

/** A row of `refused_messages`. */
interface RefusedRow {
  readonly letter: DeadLetter
  readonly parked: boolean
  readonly published: boolean
}

/** The state that all guards of one memory inbox share. */
export class MemoryStore {
  readonly tables: MemoryTables = new MemoryTables()
  readonly refused: Map<string, RefusedRow> = new Map()
  readonly rules: Map<string, number> = new Map()
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

  replay(ref: DeadLetterRef): boolean {
    if (ref.kind === 'refused') {
      const row = this.refused.get(ref.id)
      if (row === undefined) return false
      this.refused.set(ref.id, { ...row, parked: true, published: false })
      return true
    }
    if (this.tables.rows.get(ref.id)?.state !== 'dead') return false
    if (this.tables.locks.holderOf(ref.id) !== undefined) return false
    const cleared = { attempt: 0, noVerdicts: 0, token: undefined, published: false }
    const nextTryAtMs = this.tables.nowMs()
    const parked = { ...cleared, nextTryAtMs, parked: true, alone: true }
    this.tables.change(ref.id, { state: 'waiting' }, parked)
    return true
  }

  refuse(consumer: string, refusal: Refusal): DeadLetterRef {
    const id = hashOf(consumer, refusal.delivery)
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
    this.refused.set(id, { letter, parked: false, published: before?.published === true })
    return ref
  }
}

/** Identifies one message, however often it is delivered and for whatever reason it is refused. */
function hashOf(consumer: string, { source, messageId, headers, body }: Delivery): string {
  const place = [source.broker, source.queue, messageId ?? source.position ?? '']
  return createHash('sha256')
    .update(JSON.stringify([consumer, ...place, headers]))
    .update(body)
    .digest('hex')
}
