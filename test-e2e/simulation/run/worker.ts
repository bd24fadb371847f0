import { parentPort, workerData } from 'node:worker_threads'
import { heapBytes } from '@onceward/testing/heap'
import { mutate } from '../faults/mutate.ts'
import { watchRealTime } from '../world/real-time.ts'
import type { Job, Tally } from './campaign.ts'

/** Failing seeds that are kept; the first is what matters. */
const MOST_FAILURES = 20
const REPORT_EVERY = 500

const job = workerData as Job
if (job.mutant !== undefined) mutate(job.mutant)
// Only now: what is mutated must not be loaded before.
const { playerOf } = await import('./player.ts')
const play = playerOf(job.isOfCallers)

// Nobody reads the stacks of the many errors that belong to a schedule.
Error.stackTraceLimit = 0

const readsOfRealTime = watchRealTime()
/** One trace hash per schedule, in the order of this thread's seeds. */
const traceHashes: number[] = []
const tally: Tally = {
  schedules: 0,
  steps: 0,
  virtualMs: 0,
  processed: 0,
  dead: 0,
  faults: {},
  failures: [],
  heapAfterFirst: 0,
  heapAtEnd: 0,
}

for (let seed = job.from; seed < job.to; seed += job.stride) {
  const verdict = await play(seed)
  const reads = readsOfRealTime()
  const violation =
    reads.length === 0 ? verdict.violation : `the machine's ${reads.join(', ')} was called`
  tally.schedules += 1
  tally.steps += verdict.steps
  tally.virtualMs += verdict.virtualMs
  tally.processed += verdict.processed
  tally.dead += verdict.dead
  traceHashes.push(verdict.traceHash)
  for (const kind of verdict.struck) tally.faults[kind] = (tally.faults[kind] ?? 0) + 1
  if (violation !== undefined && tally.failures.length < MOST_FAILURES) {
    tally.failures.push({ seed, violation })
    if (job.mutant !== undefined) break
  }
  if (tally.schedules === REPORT_EVERY) tally.heapAfterFirst = heapBytes()
  if (tally.schedules % REPORT_EVERY === 0) {
    parentPort?.postMessage({ kind: 'progress', schedules: tally.schedules })
  }
  // Lets the thread's own messages through, and ends a chain of microtasks.
  await new Promise((resolve) => setImmediate(resolve))
}
tally.heapAtEnd = heapBytes()
parentPort?.postMessage({ kind: 'done', tally, traceHashes })
