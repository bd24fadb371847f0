/** The parts of BullMQ's `Job` that onceward uses. The jobs of BullMQ 5 and 6 fit. */
export interface JobLike {
  readonly id?: string | undefined
  readonly name: string
  readonly data: unknown
  readonly opts: object
  /** When it was added, ms. */
  readonly timestamp: number
  readonly queueName: string
  /** Runs that began, this one included. */
  readonly attemptsStarted?: number
  /** How often a worker lost it. */
  readonly stalledCounter?: number
  moveToDelayed(timestampMs: number, token?: string): Promise<void>
}

/** The parts of BullMQ's `Queue` that {@link bullmqDestination} uses. */
export interface QueueLike {
  readonly name: string
  addBulk(
    jobs: {
      readonly name: string
      readonly data: unknown
      readonly opts?: { readonly jobId?: string }
    }[],
  ): Promise<unknown>
}

/** BullMQ knows its own errors by their names, so that those of another copy of it count too. */
function named(name: string, message: string, cause?: unknown): Error {
  const error = new Error(message, cause === undefined ? undefined : { cause })
  return Object.defineProperty(error, 'name', { value: name })
}

/** Tells the worker that the job was moved already. BullMQ 5.1 knows another copy's error by its message. */
export const delayedError = (): Error => named('DelayedError', 'DelayedError')

/** Makes the worker fail the job, whatever attempts BullMQ would have left for it. */
export const unrecoverableError = (message: string, cause: unknown): Error =>
  named('UnrecoverableError', message, cause)
