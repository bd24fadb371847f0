import { type ChildProcess, fork } from 'node:child_process'
import { join } from 'node:path'
import {
  CreateQueueCommand,
  GetQueueAttributesCommand,
  SendMessageBatchCommand,
  SQSClient,
} from '@aws-sdk/client-sqs'
import { until } from '@onceward/testing'
import type { PostgresServer, SqsConnection } from '@onceward/testing/servers'
import { createEffects } from '../load/effects.ts'
import { openCache } from '../redis/testbed.ts'
import { Aim, type Fate, strike } from './aim.ts'
import { MOST } from './by-hand.ts'
import { withPool } from './database.ts'
import { newOrder, toEntry } from './orders.ts'
import type { Rival, Surroundings } from './rival.ts'
import { through, watchingPostgres } from './wire.ts'

export interface Damage {
  readonly lost: number
  readonly doubled: number
}

export interface WorkerSettings extends Omit<Surroundings, 'sqs'> {
  readonly name: string
  readonly connection: SqsConnection
}

const EVENTS = 300
const HIDDEN_MS = 3_000
/** Small, so that there are as many commits as kills. */
const BATCH = 10
export interface Place {
  readonly server: PostgresServer
  readonly connection: SqsConnection
}

/**
 * One worker process at a time consumes 300 events and is killed ten times: five times while it has written effects
 * that are not committed, five times when Postgres has committed them and the answer has not arrived. A new one
 * takes its place at once. What it did is counted in Postgres when the queue is empty.
 */
export async function killTenTimes(rival: Rival, fate: Fate, place: Place): Promise<Damage> {
  await using cache = await openCache()
  await using stack = new AsyncDisposableStack()
  const databaseUrl = await place.server.createDatabase()
  await rival.setUp(databaseUrl)
  await withPool(databaseUrl, createEffects)
  const client = new SQSClient(place.connection)
  stack.defer(() => client.destroy())
  const queueUrl = await filledQueue(client)
  const aim = new Aim()
  const proxy = stack.use(await watchingPostgres(databaseUrl, (moment) => aim.at(moment)))
  const settings: WorkerSettings = {
    name: rival.name,
    connection: place.connection,
    ...{ queueUrl, hiddenMs: HIDDEN_MS, batch: BATCH },
    databaseUrl: through(databaseUrl, proxy),
    redisUrl: cache.url,
  }
  await aim.killAll(
    () => startWorker(settings),
    (kill) => strike(cache, fate, kill),
  )
  const last = startWorker(settings)
  stack.defer(() => void last.kill('SIGKILL'))
  await until(() => isOver(client, queueUrl, databaseUrl), {
    deadlineMs: 60_000,
    everyMs: 250,
  }).catch(() => undefined)
  return await damageOf(databaseUrl)
}

function startWorker(settings: WorkerSettings): ChildProcess {
  return fork(join(import.meta.dirname, 'worker-main.ts'), [JSON.stringify(settings)], {
    // Warnings of the libraries are left out.
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  })
}

let queues = 0

async function filledQueue(client: SQSClient): Promise<string> {
  queues += 1
  const { QueueUrl = '' } = await client.send(
    new CreateQueueCommand({
      QueueName: `kills-${queues}`,
      Attributes: { VisibilityTimeout: String(HIDDEN_MS / 1_000) },
    }),
  )
  for (let sent = 0; sent < EVENTS; sent += MOST) {
    const Entries = Array.from({ length: MOST }, (_, index) => toEntry(newOrder(HIDDEN_MS), index))
    await client.send(new SendMessageBatchCommand({ QueueUrl, Entries }))
  }
  return QueueUrl
}

/** Resolves when the queue is empty and every event has its effect. A lost event never gets one. */
async function isOver(client: SQSClient, QueueUrl: string, databaseUrl: string): Promise<boolean> {
  const { Attributes } = await client.send(
    new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ['All'] }),
  )
  const left = [
    Attributes?.ApproximateNumberOfMessages,
    Attributes?.ApproximateNumberOfMessagesNotVisible,
    Attributes?.ApproximateNumberOfMessagesDelayed,
  ]
  if (left.some((count) => count !== '0')) return false
  return (await damageOf(databaseUrl)).lost === 0
}

const COUNT = `select count(*)::int as events, count(*) filter (where effects > 1)::int as doubled
  from (select count(*) as effects from effects group by order_id) as each`

function damageOf(databaseUrl: string): Promise<Damage> {
  return withPool(databaseUrl, async (pool) => {
    const { rows } = await pool.query(COUNT)
    return { lost: EVENTS - rows[0].events, doubled: rows[0].doubled }
  })
}
