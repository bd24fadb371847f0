import type { CollectedMessage } from '@onceward/core/ports'
import { bucketOf } from '../../../packages/postgres/src/transaction/outbox-sql.ts'

export interface OutboxRow {
  readonly position: number
  readonly message: CollectedMessage
  readonly bucket: number
  /** As in `outbox_messages`. */
  readonly state: 'q' | 'd' | 'w' | 'h' | 'x'
  readonly attempt: number
  readonly dueAtMs: number
}

/** The tables of the outbox in one history, and what their statements do. A commit is one step, so it needs no locks. */
export class OutboxRows {
  readonly rows: Map<number, OutboxRow>
  /** All messages that this history has committed, for the judge. */
  readonly sent: Set<string>
  readonly leases: Map<number, { readonly relay: string; readonly untilMs: number }>
  #next: number

  constructor(from?: OutboxRows) {
    this.rows = new Map(from?.rows)
    this.sent = new Set(from?.sent)
    this.leases = new Map(from?.leases)
    this.#next = from === undefined ? 1 : from.#next
  }

  get isWaiting(): boolean {
    return [...this.rows.values()].some(({ state }) => state !== 'x')
  }

  insert(messages: readonly CollectedMessage[], nowMs: number): void {
    for (const message of messages) {
      const { delayMs, id } = message
      const state = delayMs === 0 ? 'q' : 'd'
      const row = { position: this.#next, message, bucket: bucketOf(message), attempt: 0 }
      this.#set({ ...row, state, dueAtMs: nowMs + delayMs })
      this.sent.add(id)
      this.#next += 1
    }
  }

  read(buckets: ReadonlySet<number>, nowMs: number): readonly OutboxRow[] {
    for (const row of this.#inOrder()) {
      const isHeld = (): boolean => this.#some((other) => isWaiting(other) && isBehind(row, other))
      if (row.state === 'q' && buckets.has(row.bucket) && isHeld())
        this.#set({ ...row, state: 'h' })
    }
    return this.#inOrder().filter((row) => {
      if (!buckets.has(row.bucket)) return false
      if (row.state === 'q') return true
      return (row.state === 'd' || row.state === 'w') && row.dueAtMs <= nowMs
    })
  }

  /** Answers the rows that were deleted. */
  remove(
    sent: readonly { readonly position: string; readonly id: string }[],
  ): readonly OutboxRow[] {
    return sent.flatMap(({ id, position }) => {
      const row = this.rows.get(Number(position))
      if (row?.message.id !== id) return []
      this.rows.delete(row.position)
      return [row]
    })
  }

  fail(
    { id, position }: { readonly position: string; readonly id: string },
    { attempts, dueAtMs }: { readonly attempts: number; readonly dueAtMs: number },
  ): boolean {
    const row = this.rows.get(Number(position))
    if (row?.message.id !== id) return false
    const attempt = row.attempt + 1
    this.#set({ ...row, attempt, dueAtMs, state: attempt >= attempts ? 'x' : 'w' })
    return attempt >= attempts
  }

  free(buckets: ReadonlySet<number>): void {
    for (const row of this.#inOrder()) {
      if (row.state !== 'h' || !buckets.has(row.bucket)) continue
      if (!this.#some((other) => isRefused(other) && isBehind(row, other)))
        this.#set({ ...row, state: 'q' })
    }
  }

  #some(matches: (row: OutboxRow) => boolean): boolean {
    return [...this.rows.values()].some(matches)
  }

  #inOrder(): readonly OutboxRow[] {
    return [...this.rows.values()].toSorted((a, b) => a.position - b.position)
  }

  #set(row: OutboxRow): void {
    this.rows.set(row.position, row)
  }
}

const isRefused = ({ state }: OutboxRow): boolean => state === 'w'
const isWaiting = ({ state }: OutboxRow): boolean => state === 'w' || state === 'h'

const isOfKey = ({ message: one }: OutboxRow, { message: other }: OutboxRow): boolean =>
  one.key !== undefined && one.key === other.key && one.to === other.to

/** Both have one key, and the row was committed later. */
export const isBehind = (row: OutboxRow, earlier: OutboxRow): boolean =>
  isOfKey(row, earlier) && row.position > earlier.position
