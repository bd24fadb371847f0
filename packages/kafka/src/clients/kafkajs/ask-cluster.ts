import { endsWithin, withTimeout } from '@onceward/core/adapter'
import type { Runtime } from '@onceward/core/ports'
import type { KafkaAdmin, KafkaClient } from '../../client.ts'
import { classifyError, deniesTopic } from '../../errors.ts'
import type { Unseen } from '../port.ts'
import { withCluster } from './group.ts'
import { lookOf } from './topic-ids.ts'

/** For all calls of one connection together. */
const ASK_MS = 20_000
const DISCONNECT_MS = 2_000
const retry = { initialRetryTime: 100, maxRetryTime: 1_000, retries: 5 }

/** Asks a cluster on a separate connection, and disconnects. Rejects with the error of kafkajs. */
export async function askCluster<Answer>(
  kafka: Pick<KafkaClient, 'admin'>,
  runtime: Runtime,
  ask: (admin: KafkaAdmin) => Promise<Answer>,
): Promise<Answer> {
  const admin = kafka.admin({ retry })
  const asking = (async () => {
    await admin.connect()
    return ask(admin)
  })()
  try {
    return await withTimeout(runtime, asking, { call: 'the cluster', budgetMs: ASK_MS })
  } finally {
    // Not before the answer: a connection that opens after its disconnect keeps the process alive.
    const disconnect = (): Promise<void> => admin.disconnect()
    await endsWithin(runtime, asking.then(disconnect, disconnect), DISCONNECT_MS)
  }
}

/**
 * The names of all topics. Asked on the connection of a consumer that joins no group, because `listTopics` of an admin
 * fails while a single partition in the cluster has no leader. Undefined if kafkajs gives no access to it.
 */
export async function topicNames(
  kafka: Pick<KafkaClient, 'consumer'>,
  groupId: string,
): Promise<readonly string[] | undefined> {
  const ignore = (): void => undefined
  const asLeader = { onStrangers: ignore, onDenied: ignore }
  const { config, cluster } = withCluster({ groupId, retry }, groupId, asLeader)
  const consumer = kafka.consumer(config)
  try {
    await consumer.connect()
    const known = cluster()
    return known && [...((await lookOf(known)('all'))?.ids.keys() ?? [])]
  } finally {
    await consumer.disconnect()
  }
}

/**
 * From here on the connection refreshes the metadata of this topic alone. kafkajs asks for all topics otherwise, and
 * fails while a single partition in the cluster has no leader.
 */
export async function lookOnlyAt(
  admin: Pick<KafkaAdmin, 'fetchTopicOffsets'>,
  topic: string,
): Promise<void> {
  // Of the calls that have this effect, this one changes nothing.
  await admin.fetchTopicOffsets(topic)
}

/**
 * For several topics kafkajs answers only that one of them cannot be seen, so they are bisected: a request for each would
 * take longer than the start waits, for hundreds of topics of a cluster that is far away.
 */
export async function unseenAmong(admin: KafkaAdmin, topics: readonly string[]): Promise<Unseen> {
  const why = topics.length === 0 ? undefined : await whyUnseen(admin, topics)
  if (why === undefined) return { missing: [], denied: [] }
  if (topics.length === 1) return { missing: [], denied: [], [why]: topics }
  const half = Math.ceil(topics.length / 2)
  const first = await unseenAmong(admin, topics.slice(0, half))
  const second = await unseenAmong(admin, topics.slice(half))
  return {
    missing: [...first.missing, ...second.missing],
    denied: [...first.denied, ...second.denied],
  }
}

async function whyUnseen(
  admin: KafkaAdmin,
  topics: readonly string[],
): Promise<keyof Unseen | undefined> {
  try {
    await admin.fetchTopicMetadata({ topics: [...topics] })
    return undefined
  } catch (error) {
    if (deniesTopic(error)) return 'denied'
    if (classifyError(error).kind === 'topic-missing') return 'missing'
    throw error
  }
}
