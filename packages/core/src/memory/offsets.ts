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
          partitions.set(id, { of: claim, state })
          return { kind: 'claimed', state }
        }
        const { of: stored } = row
        const isUnknown = stored.clusterId === '' || claim.clusterId === ''
        const isSame = (['clusterId', 'topicId', 'groupId'] as const).every(
          (name) => stored[name] === claim[name] || (name === 'clusterId' && isUnknown),
        )
        if (!isSame) return { kind: 'other', stored: { ...stored, ...row.state } }
        const state = { ...row.state, epoch: row.state.epoch + 1 }
        const clusterId = claim.clusterId || stored.clusterId
        partitions.set(id, { of: { ...stored, clusterId }, state })
        return { kind: 'claimed', state }
      }),
    move: (move) =>
      held(move.id, () => {
        if (isMoving(tables, move)) tables.move(move)
        return partitions.get(move.id)?.state
      }),
  }
}
