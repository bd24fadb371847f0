import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
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
import { type Cache, openCache } from '../redis/stage.ts'
import { MOST } from './by-hand.ts'
import { withPool } from './database.ts'
import { newOrder, toEntry } from './orders.ts'
import type { Rival, Surroundings } from './rival.ts'
import { type Moment, through, watchingPostgres } from './wire.ts'

/** What happens to Redis: nothing, FLUSHALL at each kill, or dead from the first kill to the last. */
export const FATES = ['up', 'flushed', 'down'] as const
export type Fate = (typeof FATES)[number]

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
/** How many effects each worker writes before it is killed. The numbers differ, so that the kills do. */
const WRITES_BEFORE = [3, 11, 7, 16, 1, 13, 5, 9, 2, 14] as const

/** A worker that writes nothing for this long, because its Redis is down, is killed nevertheless. */
const STANDSTILL_MS = 5_000

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

/** Kills one worker after the other, each at its planned moment. */
class Aim {
  #writes = 0
  #plan: { readonly moment: Moment; readonly after: number } | undefined
  #worker: ChildProcess | undefined

  async killAll(start: () => ChildProcess, struck: (kill: number) => Promise<void>): Promise<void> {
    for (const [kill, after] of WRITES_BEFORE.entries()) {
      this.#writes = 0
      this.#plan = { moment: kill % 2 === 0 ? 'committed' : 'written', after }
      const worker = start()
      this.#worker = worker
      const timer = setTimeout(() => worker.kill('SIGKILL'), STANDSTILL_MS)
      await once(worker, 'exit')
      clearTimeout(timer)
      await struck(kill)
    }
  }

  /** Called before the worker learns of the moment, so that it can be killed first. */
  at(moment: Moment): void {
    if (moment === 'written') this.#writes += 1
    if (this.#plan?.moment !== moment || this.#writes < this.#plan.after) return
    this.#plan = undefined
    this.#worker?.kill('SIGKILL')
  }
}

async function strike(cache: Cache, fate: Fate, kill: number): Promise<void> {
  if (fate === 'flushed') await cache.client.flushall()
  if (fate === 'down' && kill === 0) await cache.kill()
  if (fate === 'down' && kill === WRITES_BEFORE.length - 1) await cache.restart()
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
