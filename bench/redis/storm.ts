import type { Message } from '@aws-sdk/client-sqs'
import type { Delivery, Guard } from '@onceward/core'
import { redisLeases } from '@onceward/redis'
import { wrapSqs } from '@onceward/sqs'
import { toDelivery } from '../load/effects.ts'
import { CONCURRENCY, type Contestant, inLanes } from '../runner/rounds.ts'
import { settle } from '../scenarios/guard.ts'
import { type Cache, type Database, PATIENT } from './testbed.ts'

const SLICE = 100
/** The number of done events that all duplicates are copies of: more than a process remembers by itself. */
const DONE = 100_000
const CONSUMER = 'bench-storm'
const queueUrl = 'http://127.0.0.1/000000000000/bench'

/** How many events Postgres was asked about in the storm with Redis. */
export interface Asked {
  events: number
  deliveries: number
}

/** Duplicates of done events as SQS messages: the whole way through the adapter, without SQS itself. */
export async function stormContestants(
  database: Database,
  { client }: Cache,
  asked: Asked,
): Promise<readonly Contestant[]> {
  const each = { consumer: CONSUMER, transaction: 'each' } as const
  const leases = redisLeases(client, PATIENT)
  const onAsked = (events: number): void => {
    asked.events += events
  }
  const guards = {
    'storm-inbox': database.guard(each),
    'storm-inbox-batch': database.guard({ ...each, transaction: 'batch' }),
    'storm-redis': database.guard({ ...each, leases, onAsked }),
    'storm-always': database.guard({
      ...each,
      leases: redisLeases(client, { ...PATIENT, hold: 'always' }),
    }),
  }
  const done = Array.from({ length: DONE }, toDelivery)
  await runDone(database.guard({ ...each, transaction: 'batch', leases }), done)
  asked.events = 0
  const contestant = (name: keyof typeof guards, factor: number): Contestant => ({
    name,
    factor,
    prepare: async (events) => {
      if (name === 'storm-redis') asked.deliveries += events
      return duplicates(guards[name], done, events)
    },
  })
  return [
    contestant('storm-inbox', 0.05),
    contestant('storm-inbox-batch', 0.2),
    contestant('storm-redis', 1),
    contestant('storm-always', 1),
  ]
}

async function runDone(guard: Guard, done: readonly Delivery[]): Promise<void> {
  const slices = Array.from({ length: DONE / SLICE }, (_, index) =>
    done.slice(index * SLICE, (index + 1) * SLICE),
  )
  await inLanes(slices, CONCURRENCY, (slice) => settle(guard, slice, 'processed'))
}

let copies = 0

function duplicates(guard: Guard, done: readonly Delivery[], events: number): () => Promise<void> {
  const sqs = answering()
  const handle = wrapSqs(sqs.client, guard, { queueUrl, batch: { size: SLICE } })
  const slices = Array.from({ length: Math.ceil(events / SLICE) }, (_, slice) =>
    Array.from({ length: SLICE }, (_, index) =>
      copyOf(done[(slice * SLICE + index) % DONE] as Delivery),
    ),
  )
  return async () => {
    await inLanes(slices, CONCURRENCY, async (slice) => void (await handle(slice)))
    if (sqs.deleted() < events) throw new Error(`${events - sqs.deleted()} copies were not acked`)
  }
}

function copyOf({ body, headers }: Delivery): Message {
  copies += 1
  return {
    MessageId: String(copies),
    ReceiptHandle: String(copies),
    Body: Buffer.from(body).toString(),
    Attributes: { ApproximateReceiveCount: '1', SentTimestamp: '1700000000000' },
    MessageAttributes: {
      'idempotency-key': { DataType: 'String', StringValue: headers['idempotency-key'] },
    },
  }
}

type SqsClient = Parameters<typeof wrapSqs>[0]

/** An SQS that answers at once, so that the broker is not measured. */
function answering(): { readonly client: SqsClient; deleted(): number } {
  let deleted = 0
  const send = async (command: { readonly input: object }): Promise<object> => {
    const entries: unknown = Reflect.get(command.input, 'Entries')
    if (!Array.isArray(entries)) throw new Error('expected deletes alone')
    deleted += entries.length
    return { Successful: entries.map(({ Id }) => ({ Id })), Failed: [] }
  }
  return { client: { send } as unknown as SqsClient, deleted: () => deleted }
}
