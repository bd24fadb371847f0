import type { Delivery } from '@onceward/core'
import {
  readEnvelope,
  registerEnvelopeReader,
  registerMessageTypes,
  withEnvelope,
} from '@onceward/core/adapter'
import type { JobLike } from './client.ts'

/** The job of a delivery, as handlers see it. */
export interface BullmqJob
  extends Pick<JobLike, 'id' | 'name' | 'data' | 'opts' | 'timestamp' | 'queueName'> {
  /** Of a job that a worker runs. A stored one, which runs again after a replay, has no worker. */
  updateProgress?(progress: number | object): Promise<void>
  /** As above. */
  log?(row: string): Promise<number>
}

/** The option of a job in which {@link bullmqDestination} sends the headers of its message. */
export const HEADERS = 'onceward'

/**
 * Makes a delivery of a job. Its body is the data as JSON, its type the name of the job.
 *
 * BullMQ numbers jobs, and begins again at 1 when a queue was emptied: only an id that the producer gave is a message id.
 */
export function toDelivery(job: JobLike): Delivery {
  const { attemptsStarted, data, id, opts, queueName, stalledCounter, timestamp } = job
  return withEnvelope(
    {
      body: Buffer.from(JSON.stringify(data ?? null)),
      headers: headersOf(opts),
      // A job that is added again under the id of one that was removed is another job.
      source: { broker: 'bullmq', queue: queueName, position: `${timestamp}-${id ?? ''}` },
      contentType: 'application/json',
      messageId: id === undefined || /^\d+$/.test(id) ? undefined : id,
      producedAt: dateOf(timestamp),
      deliveryCount: attemptsStarted,
      // Unknown counts as a redelivery, as everywhere.
      redelivered: attemptsStarted !== 1 || (stalledCounter ?? 0) > 0,
      raw: job,
    },
    () => ({ ...storedOf(job), data: null }),
  )
}

const storedOf = ({ id, name, data, opts, timestamp, queueName }: BullmqJob): BullmqJob => ({
  ...{ id, name, data, opts, timestamp, queueName },
})

function dateOf(ms: number): Date | undefined {
  const date = new Date(ms)
  return Number.isNaN(date.getTime()) ? undefined : date
}

/** Those of a message of the outbox, and the trace that BullMQ itself carries. */
function headersOf(opts: object): Readonly<Record<string, string>> {
  const { telemetry, [HEADERS]: sent } = opts as Readonly<Record<string, unknown>>
  const metadata: unknown = Reflect.get(Object(telemetry), 'metadata')
  return { ...textsOf(carrierOf(metadata)), ...textsOf(Reflect.get(Object(sent), 'headers')) }
}

/** `bullmq-otel` writes the carrier of a propagator as JSON. */
function carrierOf(metadata: unknown): unknown {
  if (typeof metadata !== 'string') return undefined
  try {
    return JSON.parse(metadata)
  } catch {
    return undefined
  }
}

function textsOf(fields: unknown): Readonly<Record<string, string>> {
  const entries = Object.entries(Object(fields)).filter(
    (entry): entry is [string, string] => typeof entry[1] === 'string',
  )
  return Object.fromEntries(entries.map(([name, value]) => [name.toLowerCase(), value]))
}

/**
 * The job that a delivery was made of, for its progress and its log. A stored delivery that runs again after a replay has
 * the job's data alone. Undefined for deliveries of other brokers.
 *
 * @example
 * ```ts
 * import { createGuard } from '@onceward/core'
 * import { bullmqJob } from '@onceward/bullmq'
 * import { pgInbox } from '@onceward/postgres/pg'
 *
 * const mails = createGuard({ consumer: 'mails', inbox: pgInbox(pool) }, async (event) => {
 *   await bullmqJob(event)?.updateProgress?.(50)
 * })
 * ```
 */
export const bullmqJob: (delivery: Delivery) => BullmqJob | undefined = registerEnvelopeReader(
  'bullmq',
  readJob,
)

function readJob({ body, envelope = new Uint8Array() }: Delivery): BullmqJob {
  const job = readEnvelope(envelope) as BullmqJob
  return { ...job, data: JSON.parse(Buffer.from(body).toString()) }
}

registerMessageTypes('bullmq', (raw) => Reflect.get(raw, 'name'))
