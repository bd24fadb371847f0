import { randomUUID } from 'node:crypto'
import type { EventId, LeaseRegistration } from '@onceward/core/ports'
import { boundTo, idOf, type Namespace, partitionOf } from './keys.ts'
import type { RunScript } from './scripts.ts'

const PARTITIONS = 256

export interface MarkSample {
  readonly run: RunScript
  readonly namespace: Namespace
  readonly registration: LeaseRegistration
}

/**
 * Done marks whose event PostgreSQL does not have, in a random sample of at most two marks of each partition. Costs three
 * scripts and one read of at most 512 rows.
 *
 * A mark without its row means that rows were removed behind the back of Redis: redelivered events would be acked and
 * their effect lost. Marks never outlive the rows that the sweep keeps.
 */
export async function marksWithoutRow({
  run,
  namespace,
  registration,
}: MarkSample): Promise<readonly EventId[]> {
  const { identity, isDone } = registration
  if (identity === undefined || isDone === undefined) return []
  const entries = Array.from({ length: PARTITIONS }, (_, partition) => ({
    id: inPartition(partition),
    args: [],
  }))
  const answers = await run({ script: 'sample', namespace, entries })
  const ids = entries.flatMap(({ id }, index) => {
    const fields = String(answers[index]).split(' ').filter(Boolean)
    return fields.map((field) => idOf(partitionOf(id), field))
  })
  if (ids.length === 0) return []
  const done = await isDone(ids)
  // Rows that went with their history prove nothing: the marks of that history are not believed any more.
  if (boundTo(await identity(), namespace).bucketSecret !== namespace.bucketSecret) return []
  return ids.filter((_, index) => done[index] === false)
}

const inPartition = (partition: number): EventId =>
  `${partition.toString(16).padStart(2, '0')}${randomUUID().slice(2)}` as EventId
