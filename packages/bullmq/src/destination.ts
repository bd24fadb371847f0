import { createHash } from 'node:crypto'
import type { Confirmation, Destination, OutgoingMessage } from '@onceward/core'
import { outgoingHeaders, refuseUnfitClient, refuseUnknownNames } from '@onceward/core/adapter'
import type { QueueLike } from './client.ts'
import { HEADERS } from './delivery.ts'

/** Options of {@link bullmqDestination}. */
export interface BullmqDestinationOptions {
  /**
   * The name of the job.
   *
   * @defaultValue the type of the message
   */
  readonly jobName?: string | undefined
}

/** Messages of one call. One call of BullMQ is one transaction of Redis, or one statement. */
const BATCH = 50
const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/**
 * A queue of BullMQ as a destination of the outbox's relay. The id of a message is the id of its job, so BullMQ adds the job
 * once as long as it has it. A job that was completed and removed is added again by a copy: `bullmqProcessor` runs it as a
 * duplicate.
 *
 * Payloads must be JSON. The headers of a message arrive with `bullmqProcessor`. BullMQ keeps no order.
 *
 * @param queue - `new Queue('mails', …)`. It stays open: close it yourself.
 * @throws {@link ConfigurationError}
 *
 * @example
 * ```ts
 * import { bullmqDestination } from '@onceward/bullmq'
 * import { startRelay } from '@onceward/postgres/outbox'
 * import { Queue } from 'bullmq'
 *
 * const mails = bullmqDestination(new Queue('mails', { connection: { host: '127.0.0.1' } }))
 * const relay = await startRelay({ pool, destinations: { mails } })
 * await relay.stopped
 * ```
 */
export function bullmqDestination(
  queue: QueueLike,
  options: BullmqDestinationOptions = {},
): Destination {
  const place = 'bullmqDestination'
  const advice = "Give `new Queue('mails', …)` of bullmq."
  refuseUnfitClient(place, queue, { expected: 'a queue of bullmq', methods: ['addBulk'], advice })
  refuseUnknownNames(place, options, { jobName: true })
  return {
    batch: BATCH,
    publish: async (messages) => {
      const jobs = messages.map((message) => toJob(message, options))
      const right = jobs.filter((job): job is Job => 'name' in job)
      const failed = right.length === 0 ? undefined : await add(queue, right)
      return jobs.map((job) => ('name' in job ? failed : job))
    },
  }
}

interface Job {
  readonly name: string
  readonly data: unknown
  readonly opts: { readonly jobId: string; readonly [HEADERS]: object }
}

/** No error is about one job: all of them are added, or none. */
async function add(queue: QueueLike, jobs: Job[]): Promise<Confirmation> {
  try {
    await queue.addBulk(jobs)
    return undefined
  } catch (error) {
    return { down: error }
  }
}

function toJob(
  message: OutgoingMessage,
  { jobName }: BullmqDestinationOptions,
): Job | { readonly refused: Error } {
  const { id, payload, type } = message
  try {
    const opts = { jobId: jobIdOf(id), [HEADERS]: { headers: outgoingHeaders(message, 'ce-') } }
    return { name: jobName ?? type, data: JSON.parse(UTF8.decode(payload)) as unknown, opts }
  } catch (cause) {
    return { refused: new Error(NO_JSON, { cause }) }
  }
}

/** BullMQ takes neither numbers, which are its own, nor colons, which part the names of its keys. */
const jobIdOf = (id: string): string =>
  /^\d+$|:/.test(id) ? createHash('sha256').update(id).digest('hex') : id

const NO_JSON = 'The data of a job is JSON: send plain data, or bytes as Base64.'
