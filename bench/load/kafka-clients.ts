import { createRequire } from 'node:module'
import type { KafkaConnection } from '@onceward/testing/servers'
import { Consumer } from '@platformatic/kafka'
import {
  answerOf,
  loadRdkafka,
  type RdMessage,
} from '../../packages/kafka/src/clients/confluent/rdkafka.ts'
import { CONCURRENCY, inLanes } from '../runner/rounds.ts'
import type { Stopwatch } from '../runner/stopwatch.ts'
import { unique } from './kafka-testbed.ts'

/** Clients beside kafkajs, as the tests name them. */
export type OtherClient = 'confluent' | 'platformatic'

/** The module of confluent is built by `npm run build:confluent`. */
export function otherClients(): readonly OtherClient[] {
  try {
    createRequire(import.meta.url)('@confluentinc/kafka-javascript')
    return ['confluent', 'platformatic']
  } catch {
    return ['platformatic']
  }
}

export interface HandLoop {
  readonly connection: KafkaConnection
  readonly topic: string
  readonly watch: Stopwatch
  /** Handles the value of a record. */
  readonly handle: (value: Buffer | null) => Promise<void>
}

/** Consumes a topic by hand, with as many handlers at once as the guard has. Resolves with what it took. */
export const BY_HAND: Readonly<Record<OtherClient, (loop: HandLoop) => Promise<number>>> = {
  confluent: withConfluent,
  platformatic: withPlatformatic,
}

/** As most a batch of the native consumer, and as many as come at once. */
const MOST = 1_000

async function withConfluent({ connection, topic, watch, handle }: HandLoop): Promise<number> {
  const { KafkaConsumer } = loadRdkafka()
  const consumer = new KafkaConsumer({
    ...{ 'bootstrap.servers': connection.brokers.join(), 'group.id': unique() },
    'auto.offset.reset': 'earliest',
  })
  await answerOf((done) => consumer.connect({ allTopics: false, timeout: 10_000 }, done))
  consumer.setDefaultConsumeTimeout(100)
  consumer.setDefaultIsTimeoutOnlyForFirstMessage(true)
  consumer.subscribe([topic])
  let isOver = false
  const loop = async (): Promise<void> => {
    while (!isOver) {
      const records = await answerOf<readonly RdMessage[]>((done) => consumer.consume(MOST, done))
      if (records.length > 0) watch.start()
      await inLanes(records, CONCURRENCY, async ({ value }) => {
        await handle(value)
        watch.count()
      })
    }
  }
  const running = loop()
  running.catch((error: Error) => watch.fail(error))
  const took = await watch.took
  isOver = true
  await running
  await answerOf((done) => consumer.disconnect(done))
  return took
}

async function withPlatformatic({ connection, topic, watch, handle }: HandLoop): Promise<number> {
  const bootstrapBrokers = [...connection.brokers]
  const consumer = new Consumer({ clientId: 'bench', bootstrapBrokers, groupId: unique() })
  const stream = await consumer.consume({ topics: [topic], mode: 'earliest', autocommit: true })
  const records = stream[Symbol.asyncIterator]()
  const lane = async (): Promise<void> => {
    for (let next = await records.next(); !next.done; next = await records.next()) {
      watch.start()
      await handle(next.value.value)
      watch.count()
    }
  }
  stream.on('error', (error) => watch.fail(error))
  const running = Promise.allSettled(Array.from({ length: CONCURRENCY }, lane))
  const took = await watch.took
  await consumer.close(true)
  await running
  return took
}
