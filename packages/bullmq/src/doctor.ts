import { type Findings, type GuardSettings, when } from '@onceward/core/adapter'

/** The options of a BullMQ worker that decide what becomes of a job whose process died. */
interface WorkerOptions {
  readonly lockDuration?: number
  readonly maxStalledCount?: number
  readonly maxStartedAttempts?: number
  readonly skipLockRenewal?: boolean
}

/**
 * Compares the options of the worker with those of the guard. The worker is the `queue` of its jobs; where a version of
 * BullMQ has it elsewhere, nothing is found.
 *
 * @see https://docs.bullmq.io/guide/workers/stalled-jobs
 */
export function examine(
  job: object,
  { deadlineMs, maxAttempts }: Pick<GuardSettings, 'deadlineMs' | 'maxAttempts'>,
): Findings {
  const options: unknown = Reflect.get(Object(Reflect.get(job, 'queue')), 'opts')
  const { lockDuration, maxStalledCount, maxStartedAttempts, skipLockRenewal } = Object(
    options,
  ) as WorkerOptions
  const needed = maxAttempts - 1
  return {
    problems: [],
    warnings: [
      ...when(
        maxStalledCount !== undefined && maxStalledCount < needed,
        `The worker's \`maxStalledCount\` is ${maxStalledCount}: BullMQ fails a job that loses its worker more often, and the guard, which tries ${maxAttempts} times, does not record it. Set \`maxStalledCount: ${needed}\`.`,
      ),
      ...when(
        maxStartedAttempts !== undefined,
        'The worker has `maxStartedAttempts`: each deferral starts the job once more, so BullMQ may fail a job that only waited. Leave it out: the guard counts attempts.',
      ),
      ...when(
        skipLockRenewal === true && lockDuration !== undefined && lockDuration < deadlineMs,
        `The worker does not renew its locks, and its \`lockDuration\` of ${lockDuration} ms is below the \`deadlineMs\` of the guard, ${deadlineMs} ms: a job that runs for long is started again meanwhile. Raise \`lockDuration\`.`,
      ),
    ],
  }
}
