import type { Runtime } from '@onceward/core'
import { endsWithin, withTimeout } from '@onceward/core/adapter'
import type { Admin, Consumer, Kafka } from 'kafkajs'

/** What this package calls of a client of kafkajs. Brokers, credentials, retries and sockets are the user's. */
export type KafkaClient = Pick<Kafka, 'consumer' | 'admin'>

/** What `wrapKafka` calls of a consumer. */
export type KafkaConsumer = Pick<Consumer, 'on' | 'events' | 'pause' | 'resume'>

/** What is asked of a cluster beside records. */
export type KafkaAdmin = Pick<
  Admin,
  'fetchTopicMetadata' | 'describeConfigs' | 'describeGroups' | 'listTopics'
>

/** All calls of one visit together. */
const VISIT_MS = 20_000
const GOODBYE_MS = 2_000

/** Asks a cluster something on a connection of its own, and hangs up. Rejects with what kafkajs threw. */
export async function askCluster<Answer>(
  kafka: Pick<KafkaClient, 'admin'>,
  runtime: Runtime,
  ask: (admin: KafkaAdmin) => Promise<Answer>,
): Promise<Answer> {
  const admin = kafka.admin({ retry: { initialRetryTime: 100, maxRetryTime: 1_000, retries: 5 } })
  const asking = (async () => {
    await admin.connect()
    return ask(admin)
  })()
  try {
    return await withTimeout(runtime, asking, { call: 'the cluster', budgetMs: VISIT_MS })
  } finally {
    // Not before: what connects after it was hung up keeps the process alive.
    const hangUp = (): Promise<void> => admin.disconnect()
    await endsWithin(runtime, asking.then(hangUp, hangUp), GOODBYE_MS)
  }
}
