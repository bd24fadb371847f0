import { randomUUID } from 'node:crypto'
import { type EventEmitter, getEventListeners } from 'node:events'
import { CreateQueueCommand, SQSClient } from '@aws-sdk/client-sqs'
import { consumeAmqp } from '@onceward/amqp'
import {
  ConfigurationError,
  type Consumption,
  createGuard,
  type Guard,
  type Inbox,
  type LeaseStore,
} from '@onceward/core'
import { portOf } from '@onceward/core/adapter'
import { memoryInbox } from '@onceward/core/memory'
import { consumeKafka } from '@onceward/kafka'
import { migrate } from '@onceward/postgres'
import { pgInbox } from '@onceward/postgres/pg'
import { redisLeases } from '@onceward/redis'
import { consumeSqs } from '@onceward/sqs'
import { database, kafka, rabbitmq, redis, skipped, sqs, until } from '@onceward/testing'
import { connect } from 'amqplib'
import { Redis } from 'ioredis'
import { Kafka, logLevel } from 'kafkajs'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type FailingStep, failingStep, withFailingStep } from '../../support/failing-step.ts'
import { listenersOf, resources, watchedRuntime } from '../../support/left-behind.ts'

const silent = { debug() {}, info() {}, warn() {}, error() {} }

/** A consumer on a real server, one step of whose client fails. */
interface Start {
  readonly guard: Guard
  readonly signal: AbortSignal
  readonly step: FailingStep
}

interface Subject {
  /** Of the guard; in memory by default. */
  readonly stores?: (step: FailingStep) => {
    readonly inbox: Inbox<unknown>
    readonly leases: LeaseStore
  }
  /** Errors as the client of the broker throws them. */
  readonly errors: Readonly<Record<string, () => Error>>
  /** What of the user's may keep listeners. */
  readonly emitters: () => Readonly<Record<string, EventEmitter>>
  /** Undefined where nothing is consumed. */
  consume(start: Start): Promise<Consumption | undefined>
  stop(): Promise<void>
}

const configuration = (): Error => new ConfigurationError('it can never work')
const network = (): Error => Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' })

async function onSqs(): Promise<Subject> {
  const server = await sqs()
  const client = new SQSClient({ ...server.connection, maxAttempts: 1 })
  const create = new CreateQueueCommand({ QueueName: `start-${randomUUID()}` })
  const queueUrl = (await client.send(create)).QueueUrl as string
  return {
    errors: {
      network,
      forbidden: () => Object.assign(new Error('no'), { name: 'AccessDeniedException' }),
      missing: () => Object.assign(new Error('no'), { name: 'QueueDoesNotExist' }),
    },
    emitters: () => ({}),
    consume: ({ guard, signal, step }) =>
      consumeSqs(
        withFailingStep(client, { steps: ['send'] }, () => step),
        guard,
        {
          ...{ queueUrl, signal, drainMs: 1_000, longPollMs: 1_000 },
        },
      ),
    stop: async () => {
      client.destroy()
      await server.stop()
    },
  }
}

const ADMIN = ['listTopics', 'fetchTopicMetadata', 'describeConfigs', 'describeGroups']
const OFFSETS = ['fetchTopicOffsets', 'fetchOffsets', 'setOffsets', 'describeCluster']

async function onKafka(): Promise<Subject> {
  const server = await kafka()
  const client = new Kafka({
    ...{ ...server.connection, logLevel: logLevel.NOTHING },
    retry: { initialRetryTime: 10, retries: 1 },
  })
  const admin = client.admin()
  await admin.connect()
  const topic = `start-${randomUUID()}`
  await admin.createTopics({ topics: [{ topic, numPartitions: 1 }] })
  await admin.disconnect()
  const names = {
    steps: ['connect', 'subscribe', 'run', ...ADMIN, ...OFFSETS],
    factories: ['admin', 'consumer'],
  }
  return {
    errors: {
      network,
      forbidden: () =>
        Object.assign(new Error('no'), {
          name: 'KafkaJSProtocolError',
          type: 'GROUP_AUTHORIZATION_FAILED',
          retriable: false,
        }),
    },
    emitters: () => ({}),
    consume: ({ guard, signal, step }) =>
      consumeKafka(
        withFailingStep(client, names, () => step),
        guard,
        {
          ...{ topics: [topic], groupId: randomUUID(), signal, drainMs: 1_000 },
          consumer: { sessionTimeout: 6_000 },
        },
      ),
    stop: () => server.stop(),
  }
}

const CHANNEL = ['assertQueue', 'checkQueue', 'checkExchange', 'bindQueue', 'prefetch', 'consume']
const AMQP = {
  steps: ['connect', 'createChannel', 'createConfirmChannel', ...CHANNEL],
  factories: ['connect', 'createChannel', 'createConfirmChannel'],
}

/** @param whose - Whether onceward opens the connection, or the user has. */
async function onAmqp(whose: 'ours' | 'theirs'): Promise<Subject> {
  const server = await rabbitmq()
  const { url } = server.connection
  const own = await connect(url)
  own.on('error', () => undefined)
  const channel = await own.createChannel()
  const queue = `start-${randomUUID()}`
  await channel.assertQueue(queue)
  await channel.close()
  return {
    errors: {
      network,
      missing: () => Object.assign(new Error('NOT_FOUND - no queue'), { code: 404 }),
      forbidden: () => Object.assign(new Error('ACCESS_REFUSED'), { code: 403 }),
    },
    emitters: () => ({ connection: own as unknown as EventEmitter }),
    consume: ({ guard, signal, step }) => {
      const opener = withFailingStep({ connect: () => connect(url) }, AMQP, () => step)
      const source =
        whose === 'ours' ? () => opener.connect() : withFailingStep(own, AMQP, () => step)
      return consumeAmqp(source, guard, { queue, signal, drainMs: 1_000 })
    },
    stop: async () => {
      await own.close()
      await server.stop()
    },
  }
}

/** The stores of a guard, one step of whose clients fails: what the adapters have in common. */
async function onStores(): Promise<Subject> {
  const cache = await redis()
  const pool = new pg.Pool({ connectionString: (await database()).url, max: 4 })
  pool.on('error', () => undefined)
  await migrate(pool)
  const ioredis = new Redis(cache.connection.url)
  let now = failingStep(0, network)
  const connecting = { steps: ['connect', 'query'], factories: ['connect'] }
  const inbox = pgInbox(withFailingStep(pool, connecting, () => now)) as Inbox<unknown>
  const leases = redisLeases(withFailingStep(ioredis, { steps: ['evalsha', 'eval'] }, () => now))
  return {
    errors: {
      network,
      refused: () => Object.assign(new Error('permission denied'), { code: '42501' }),
    },
    emitters: () => ({ pool: pool as EventEmitter, redis: ioredis }),
    stores: (step) => {
      now = step
      return { inbox, leases }
    },
    consume: async ({ guard }) => {
      await portOf(guard).open()
      return undefined
    },
    stop: async () => {
      ioredis.disconnect()
      await pool.end()
      await cache.stop()
    },
  }
}

const SUBJECTS = {
  SQS: { service: 'sqs', start: onSqs },
  Kafka: { service: 'kafka', start: onKafka },
  'RabbitMQ, over connections of onceward': { service: 'rabbitmq', start: () => onAmqp('ours') },
  "RabbitMQ, over the user's connection": { service: 'rabbitmq', start: () => onAmqp('theirs') },
  'the stores alone': { service: 'postgres', start: onStores },
} as const

/** One start of which one step fails, and its end. */
async function startAndEnd(subject: Subject, step: FailingStep) {
  const { runtime, timers } = watchedRuntime()
  const stop = new AbortController()
  const stores = subject.stores?.(step) ?? { inbox: memoryInbox() as Inbox<unknown> }
  const options = { ...stores, consumer: randomUUID(), runtime, logger: silent }
  const guard = createGuard(options as never, () => undefined)
  const start = { guard, signal: stop.signal, step }
  let consumption: Consumption | undefined
  let isRunning = true
  try {
    consumption = await subject.consume(start)
  } catch (error) {
    expect(error).toBeInstanceOf(Error)
    isRunning = false
  }
  consumption?.stopped.catch(() => undefined)
  await consumption?.drain()
  await guard.close()
  return { isRunning, timers, stop }
}

/** Clients of servers close their connections a moment later. */
async function noMoreThan(before: Readonly<Record<string, number>>, what: string): Promise<void> {
  await until(() => {
    const now = resources()
    const grown = Object.keys(now).filter((name) => (now[name] ?? 0) > (before[name] ?? 0))
    if (grown.length === 0) return true
    throw new Error(`after ${what}: ${JSON.stringify(now)}, before it ${JSON.stringify(before)}`)
  })
}

describe.each(Object.entries(SUBJECTS))('a start on %s', (_name, { service, start }) => {
  let subject: Subject
  beforeAll(async () => {
    if (!skipped(service)) subject = await start()
  }, 200_000)
  afterAll(() => subject?.stop())

  test.skipIf(skipped(service))(
    'leaves no listener, no timer and no connection, whichever of its steps fails and however',
    async () => {
      // What the user's own clients keep open after their first call is theirs.
      await startAndEnd(subject, failingStep(0, network))
      await new Promise((resolve) => setImmediate(resolve))
      const before = { resources: resources(), listeners: listenersOf(subject.emitters()) }
      const failed: string[] = []
      const running: string[] = []
      for (const [kind, error] of Object.entries({ ...subject.errors, configuration })) {
        for (let at = 1; ; at++) {
          const step = failingStep(at, error)
          const { isRunning, timers, stop } = await startAndEnd(subject, step)
          const what = `${kind} at step ${at}, ${step.failed}`
          if (step.failed === undefined) break
          void (isRunning ? running : failed).push(what)
          await until(() => timers.size === 0, { what: `no timer after ${what}` })
          expect(getEventListeners(stop.signal, 'abort'), what).toEqual([])
          expect(listenersOf(subject.emitters()), what).toEqual(before.listeners)
          await noMoreThan(before.resources, what)
        }
      }
      // Of the brokers, both ways to fail were seen: a start that rejects, and a consumer that goes on trying.
      expect(failed.length).toBeGreaterThan(1)
      if (subject.stores === undefined) expect(running.length).toBeGreaterThan(1)
    },
  )
})
