import type { Delivery, Guard } from '@onceward/core'
import { heapBytes } from '@onceward/testing/heap'
import type { Pool } from 'pg'
import { CONCURRENCY, inLanes } from '../runner/rounds.ts'
import { toDelivery } from './effects.ts'

const BATCH = 100

/** Runs very many events, one tenth of them in transactions of their own, and measures heap and tables. */
export async function grow(
  { pool, each, batch }: { readonly pool: Pool; readonly each: Guard; readonly batch: Guard },
  events: number,
): Promise<Readonly<Record<string, number>>> {
  await run(each, events / 20)
  await run(batch, (events / 20) * 9)
  const half = heapBytes()
  await run(each, events / 20)
  await run(batch, (events / 20) * 9)
  const grown = heapBytes() - half
  const { rows } = await pool.query(
    `select pg_total_relation_size('onceward.processed_events')::float8 / count(*) as bytes
     from onceward.processed_events`,
  )
  return {
    'heap MiB': half / 2 ** 20,
    'heap growth, bytes per event': grown / (events / 2),
    'bytes per event': rows[0].bytes,
  }
}

async function run(guard: Guard, events: number): Promise<void> {
  await inLanes(slices(events), CONCURRENCY, async (slice) => {
    await guard.processBatch(slice)
  })
}

function* slices(events: number): Generator<readonly Delivery[]> {
  for (let done = 0; done < events; done += BATCH) yield Array.from({ length: BATCH }, toDelivery)
}
