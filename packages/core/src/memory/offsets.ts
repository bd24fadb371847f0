import type { EventId } from '../model/brands.ts'
import { StoreUnavailableError } from '../model/errors.ts'
import type { OffsetStore } from '../model/fence.ts'
import type { Runtime } from '../model/runtime.ts'
import { isMoving, type MemoryTables } from './tables.ts'

/** As long as the short statements of Postgres wait, ms. */
const WAIT_MS = 5_000

/** The offsets of partitions, with the locks of the Postgres inbox. */
export function memoryOffsets(tables: MemoryTables, runtime: Runtime): OffsetStore {
  const { locks, partitions } = tables
  /** Waits for a transaction that moves the partition. */
  const held = async <Result>(id: EventId, work: () => Result): Promise<Result> => {
    const holder = {}
    if (!(await locks.take(id, holder, WAIT_MS, runtime))) {
      throw new StoreUnavailableError('Another transaction holds the partition.')
    }
    try {
      return work()
    } finally {
      locks.release([id], holder)
    }
  }
  return {
    claim: (id, claim) =>
      held(id, () => {
        const row = partitions.get(id)
        if (row === undefined) {
          const state = { epoch: 1, generation: 1, next: claim.startsAt, open: [] }
          partitions.set(id, { of: claim.of, state })
          return { kind: 'claimed', state }
        }
        const stored = Object.entries(row.of)
        const isOther = stored.some(([name, text]) => {
          const asked = claim.of[name]
          return text !== '' && asked !== '' && text !== asked
        })
        if (isOther) return { kind: 'other', stored: { of: row.of, next: row.state.next } }
        const state = { ...row.state, epoch: row.state.epoch + 1 }
        const of = stored.map(([name, text]) => [name, claim.of[name] || text])
        partitions.set(id, { of: Object.fromEntries(of), state })
        return { kind: 'claimed', state }
      }),
    move: (move) =>
      held(move.id, () => {
        if (isMoving(tables, move)) tables.move(move)
        return partitions.get(move.id)?.state
      }),
  }
}
