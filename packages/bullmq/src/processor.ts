import type { Guard, Settlement, WrappedConsumption } from '@onceward/core'
import {
  type GuardPort,
  messageOf,
  portOf,
  RUN_DEFAULTS,
  reportFindings,
  type WrapSignals,
  withConsumption,
} from '@onceward/core/adapter'
import type { JobLike } from './client.ts'
import { toDelivery } from './delivery.ts'
import { examine } from './doctor.ts'
import { type Answer, createReport, type Received, settle } from './settle.ts'

/** What `bullmqProcessor(guard)` returns. */
export interface BullmqProcessor<Result = unknown> {
  /** The processor of a worker. Resolves with what the handler returned, also for a job that ran before. */
  (job: JobLike, token?: string, signal?: AbortSignal): Promise<Result>
  readonly consumption: WrappedConsumption
}

/**
 * The guard as the processor of a BullMQ worker, with Redis or with PostgreSQL behind it.
 *
 * The effect of a job is committed once, also if the job is stalled and runs in two workers, or if its worker dies between
 * the commit and the completion. A job that fails waits as the guard's `retry` says and is moved to the delayed jobs: its
 * own `attempts` and `backoff` are not used. A job whose attempts are spent is recorded with the inbox and goes to the
 * failed jobs. Jobs whose store is down wait in their slots of the worker, up to 5 s at a time, and count no attempt.
 *
 * The handler's return value is stored with the event and becomes the job's `returnvalue`: it must be plain JSON.
 *
 * The key of an event is that of its payload. With `eventKey: messageId()` it is the job's id where the producer gave one;
 * the numbers that BullMQ gives by itself are no ids.
 *
 * To shut down: `await worker.close()`, then `await guard.close()`.
 *
 * @param guard - Made by `createGuard`. One job is one call of it: the worker's `concurrency` says how many run.
 *
 * @example
 * ```ts
 * import { bullmqProcessor } from '@onceward/bullmq'
 * import { Worker } from 'bullmq'
 *
 * const connection = { host: '127.0.0.1', maxRetriesPerRequest: null }
 * const worker = new Worker('orders', bullmqProcessor(billing), { connection, maxStalledCount: 4 })
 * ```
 */
export function bullmqProcessor<Result>(guard: Guard<unknown, Result>): BullmqProcessor<Result> {
  const port = portOf(guard)
  const report = createReport(port)
  return withConsumption({
    ...{ port, drainMs: RUN_DEFAULTS.drainMs, queue: port.settings.consumer, describe: messageOf },
    createLoop: (signals) => {
      const jobs = new Jobs(port, report, signals)
      const wrapped = (job: JobLike, token?: string, signal?: AbortSignal): Promise<Result> =>
        jobs.run(job, token, signal) as Promise<Result>
      return { wrapped, dispatcher: jobs, settling: report, finish: async () => undefined }
    },
  })
}

/** The jobs that the worker has handed over. */
class Jobs {
  inFlight = 0
  readonly #port: GuardPort
  readonly #report: ReturnType<typeof createReport>
  readonly #signals: WrapSignals
  readonly #calls = new Set<Promise<unknown>>()
  #isExamined = false

  constructor(port: GuardPort, report: ReturnType<typeof createReport>, signals: WrapSignals) {
    this.#port = port
    this.#report = report
    this.#signals = signals
  }

  /** Nothing waits here: the guard answers a stop for jobs that it has not started. */
  clear(): void {}

  async ended(): Promise<void> {
    while (this.#calls.size > 0) await Promise.allSettled(this.#calls)
  }

  async run(job: JobLike, token?: string, signal?: AbortSignal): Promise<unknown> {
    this.#examine(job)
    this.inFlight += 1
    this.#signals.progressed()
    const call = this.#answer({ job, token }, signal)
    this.#calls.add(call)
    try {
      const answer = await call
      if ('throws' in answer) throw answer.throws
      return answer.returns
    } finally {
      this.#calls.delete(call)
      this.inFlight -= 1
      this.#signals.progressed()
    }
  }

  async #answer(received: Received, signal: AbortSignal | undefined): Promise<Answer> {
    const { stop, abort } = this.#signals
    const { job } = received
    const [settlement] = await this.#port.run([toDelivery(job)], {
      ...{ stop, needsResult: true, hasDeadLetterPlace: isKept(job) },
      abort: signal === undefined ? abort : AbortSignal.any([abort, signal]),
    })
    const context = { port: this.#port, report: this.#report, stop }
    return settle(context, received, settlement as Settlement)
  }

  /** The worker's options are known with its first job. */
  #examine(job: JobLike): void {
    if (this.#isExamined) return
    this.#isExamined = true
    const { logger, settings } = this.#port
    reportFindings([examine(job, settings)], logger, { queue: job.queueName })
  }
}

/** Whether BullMQ keeps a job that failed, with its data: a body that no record holds is not lost then. */
function isKept({ opts }: JobLike): boolean {
  const { removeOnFail } = opts as { readonly removeOnFail?: unknown }
  return removeOnFail === undefined || removeOnFail === false
}
