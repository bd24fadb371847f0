import { Worker } from 'node:worker_threads'

/** A share of the seeds, and what is broken on purpose. */
export interface Job {
  readonly from: number
  readonly to: number
  readonly stride: number
  /** Name of a mutant; undefined: the core as it is. */
  readonly mutant?: string | undefined
  /** Schedules of callers, in place of those of brokers. */
  readonly isOfCallers: boolean
}

/** What came of some schedules. */
export interface Tally {
  schedules: number
  steps: number
  virtualMs: number
  /** Events that ended with their effect, and without. */
  processed: number
  dead: number
  /** Faults that struck, by kind. */
  readonly faults: Record<string, number>
  readonly failures: { readonly seed: number; readonly violation: string }[]
  /** Live bytes after the first 500 schedules and after the last. */
  heapAfterFirst: number
  heapAtEnd: number
}

/** What came of a whole campaign. */
export interface Result extends Tally {
  /** Of all traces in the order of their seeds: equal for equal runs, on any number of threads. */
  readonly traceHash: number
}

export interface Campaign {
  readonly seed: number
  readonly schedules: number
  readonly threads: number
  readonly mutant?: string | undefined
  readonly isOfCallers: boolean
  readonly onProgress?: (schedules: number) => void
}

/** What a thread answers: its tally, and the trace hash of each of its schedules. */
interface Done {
  readonly tally: Tally
  readonly traceHashes: readonly number[]
}

type Message =
  | { readonly kind: 'progress'; readonly schedules: number }
  | ({ readonly kind: 'done' } & Done)

/** Runs the schedules of consecutive seeds on some threads. */
export async function runCampaign(campaign: Campaign): Promise<Result> {
  const { isOfCallers, mutant, schedules, seed, threads } = campaign
  const reached = Array.from({ length: threads }, () => 0)
  const done = await Promise.all(
    reached.map((_, index) => {
      const job = { from: seed + index, to: seed + schedules, stride: threads, mutant, isOfCallers }
      return runJob(job, (count) => {
        reached[index] = count
        campaign.onProgress?.(reached.reduce((sum, each) => sum + each, 0))
      })
    }),
  )
  return {
    ...total(done.map(({ tally }) => tally)),
    traceHash: hashInSeedOrder(done.map(({ traceHashes }) => traceHashes)),
  }
}

/** Thread i has the i-th seed, and then every `threads`-th. */
function hashInSeedOrder(byThread: readonly (readonly number[])[]): number {
  const longest = Math.max(...byThread.map(({ length }) => length))
  let hash = 0
  for (let at = 0; at < longest; at += 1) {
    for (const hashes of byThread) hash = (Math.imul(hash, 31) + (hashes[at] ?? 0)) >>> 0
  }
  return hash
}

function runJob(job: Job, onProgress: (schedules: number) => void): Promise<Done> {
  const worker = new Worker(new URL('./worker.ts', import.meta.url), { workerData: job })
  return new Promise((resolve, reject) => {
    worker.on('message', (message: Message) => {
      if (message.kind === 'progress') onProgress(message.schedules)
      else resolve(message)
    })
    worker.on('error', reject)
    worker.on('exit', (code) => reject(new Error(`a thread of the simulation ended with ${code}`)))
  })
}

/** All threads together. */
function total(tallies: readonly Tally[]): Tally {
  const sum: Tally = {
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
  for (const tally of tallies) {
    sum.schedules += tally.schedules
    sum.steps += tally.steps
    sum.virtualMs += tally.virtualMs
    sum.processed += tally.processed
    sum.dead += tally.dead
    for (const [kind, times] of Object.entries(tally.faults)) {
      sum.faults[kind] = (sum.faults[kind] ?? 0) + times
    }
    sum.failures.push(...tally.failures)
    sum.heapAfterFirst = Math.max(sum.heapAfterFirst, tally.heapAfterFirst)
    sum.heapAtEnd = Math.max(sum.heapAtEnd, tally.heapAtEnd)
  }
  return sum
}
