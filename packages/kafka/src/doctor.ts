import {
  type Findings,
  type GuardPort,
  type GuardSettings,
  refuseProblems,
  reportFindings,
  shown,
  when,
} from '@onceward/core/adapter'
import { matches } from './clients/matches.ts'
import type { ClusterView, KafkaClientPort } from './clients/port.ts'
import { sharedGroup, strangersTo } from './clients/shared-group.ts'
import { classifyError } from './errors.ts'
import type { ConsumerSettings } from './options.ts'

const CONFIGS = ['retention.ms', 'cleanup.policy', 'max.message.bytes', 'min.insync.replicas']

export interface Surroundings {
  readonly client: Pick<KafkaClientPort, 'ask'>
  readonly settings: ConsumerSettings
  readonly port: Pick<GuardPort, 'settings' | 'logger' | 'runtime'>
}

/** The settings of a topic, as far as they could be read. */
export interface TopicFacts {
  readonly topic: string
  /** `max.message.bytes`. */
  readonly maxBytes?: number | undefined
  /** `min.insync.replicas`. */
  readonly minInSync?: number | undefined
  /** `retention.ms`; infinite when it is −1. */
  readonly retentionMs: number | undefined
  readonly isCompacted: boolean
}

/**
 * Checks the settings, the topics and the group before the first fetch.
 *
 * @throws {@link ConfigurationError} when the settings cannot work. Other errors are the client's and may pass.
 */
export async function examine(surroundings: Surroundings): Promise<void> {
  const { client, settings, port } = surroundings
  const { groupId } = settings.consumer
  const look = async (cluster: ClusterView) => {
    const topics = await existing(cluster, surroundings)
    const facts = await factsOf(cluster, topics, surroundings)
    const dead = await deadLetterFacts(cluster, surroundings)
    return { facts, dead, strangers: await strangersOf(cluster, surroundings) }
  }
  const { facts, dead, strangers } = await client.ask(look, { runtime: port.runtime, groupId })
  const found = [
    groupFindings(strangers, surroundings),
    timeFindings(settings, port.settings),
    ...facts.map((each) => topicFindings(each, port.settings)),
    ...dead.map((each) => deadLetterFindings(each, facts)),
  ]
  reportFindings(found, port.logger, { group: settings.consumer.groupId })
}

/**
 * Names of the topics to consume, without those that this client may not describe: the others are consumed.
 *
 * @throws {@link ConfigurationError} when one is missing, or the dead-letter topic.
 */
async function existing(
  cluster: ClusterView,
  { settings: { deadLetter, topics } }: Surroundings,
): Promise<readonly string[]> {
  const named = topics.filter((topic) => typeof topic === 'string')
  const { missing, denied } = await cluster.unseen(named)
  const dead = await cluster.unseen(deadLetter === undefined ? [] : [deadLetter.topic])
  refuseProblems([
    ...missing.map((topic) => missingTopic('topics', topic)),
    ...dead.missing.map(missingDeadLetterTopic),
  ])
  if (named.length === topics.length) return named.filter((topic) => !denied.includes(topic))
  const all = await cluster.topicNames()
  return all.filter((topic) => topics.some((subscription) => matches(subscription, topic)))
}

export const missingTopic = (option: string, topic: string): string =>
  `The topic of \`${option}\`, '${shown(topic)}', does not exist in this cluster, or this client may not describe it. ` +
  'Create it, or correct the name.'

/** The producer does not show its cluster, so its topic is looked up where the records are. */
const missingDeadLetterTopic = (topic: string): string =>
  `${missingTopic('deadLetter.topic', topic)} It must be in the cluster that is consumed. If your producer sends to ` +
  'another cluster, use `wrapKafka`, which does not check topics, or create the topic here and mirror it to there.'

/** Settings of the dead-letter topic with the least number of replicas of its partitions. */
async function deadLetterFacts(
  cluster: ClusterView,
  surroundings: Surroundings,
): Promise<readonly DeadLetterFacts[]> {
  const { deadLetter } = surroundings.settings
  if (deadLetter === undefined) return []
  const [facts] = await factsOf(cluster, [deadLetter.topic], surroundings)
  // The producer may be of another client, so this one may lack the rights that are needed to check its topic.
  if (facts === undefined) return []
  const replicas = await cluster.replicas(deadLetter.topic)
  return [{ ...facts, replicas: Math.min(...replicas) }]
}

async function factsOf(
  cluster: ClusterView,
  topics: readonly string[],
  { port }: Surroundings,
): Promise<readonly TopicFacts[]> {
  if (topics.length === 0) return []
  try {
    const configs = await cluster.topicConfigs(topics, CONFIGS)
    return [...configs].map(([topic, settings]) => ({
      topic,
      retentionMs: toMs(settings.get('retention.ms')),
      isCompacted: settings.get('cleanup.policy')?.includes('compact') ?? false,
      maxBytes: toNumber(settings.get('max.message.bytes')),
      minInSync: toNumber(settings.get('min.insync.replicas')),
    }))
  } catch (error) {
    const { kind, text } = classifyError(error)
    if (kind !== 'denied') throw error
    const fix = 'allow DescribeConfigs on these topics'
    port.logger.warn({ topics, reason: text, fix }, 'the topics could not be checked')
    return []
  }
}

/** Other consumers that have members in the group. */
async function strangersOf(
  cluster: ClusterView,
  { port, settings }: Surroundings,
): Promise<readonly string[]> {
  const { groupId } = settings.consumer
  try {
    return strangersTo(port.settings.consumer, await cluster.consumersOf(groupId))
  } catch (error) {
    const { kind, text } = classifyError(error)
    if (kind !== 'denied') throw error
    const fix = 'allow Describe on this group'
    port.logger.warn({ group: groupId, reason: text, fix }, 'the group could not be checked')
    return []
  }
}

/** trap T39: two consumers in one group share its records, so each sees only a part of them. */
function groupFindings(strangers: readonly string[], { port, settings }: Surroundings): Findings {
  const problem = sharedGroup(settings, port.settings.consumer, strangers)
  return { problems: when(strangers.length > 0, problem), warnings: [] }
}

function toMs(value: string | undefined): number | undefined {
  const ms = Number(value)
  if (Number.isNaN(ms)) return undefined
  return ms < 0 ? Number.POSITIVE_INFINITY : ms
}

function toNumber(value: string | undefined): number | undefined {
  const number = Number(value)
  return Number.isNaN(number) ? undefined : number
}

export interface DeadLetterFacts extends TopicFacts {
  /** Of the partition that has the fewest. */
  readonly replicas: number
}

/** The headers that give the reason, with an error text of the length at which it is cut, take less. */
const HEADER_BYTES = 4_096

/** A dead letter that the broker never takes blocks its key without end. */
export function deadLetterFindings(
  {
    topic,
    isCompacted,
    maxBytes = Number.POSITIVE_INFINITY,
    minInSync = 0,
    replicas,
  }: DeadLetterFacts,
  sources: readonly TopicFacts[],
): Findings {
  const largest = Math.max(0, ...sources.map((source) => source.maxBytes ?? 0))
  return {
    problems: [
      ...when(
        isCompacted,
        `The dead-letter topic '${topic}' is compacted (cleanup.policy): the broker refuses dead letters without a key ` +
          'and deletes older ones of the same key. Set its cleanup.policy to delete.',
      ),
      ...when(
        minInSync > replicas,
        `The dead-letter topic '${topic}' has ${replicas} replicas and needs ${minInSync} in sync ` +
          '(min.insync.replicas): the broker refuses every dead letter. Lower it, or add replicas.',
      ),
      ...when(
        maxBytes < Math.min(largest, HEADER_BYTES),
        `The dead-letter topic '${topic}' takes records of at most ${maxBytes} bytes (max.message.bytes), less than ` +
          `the headers of a dead letter may need. Set it to ${largest + HEADER_BYTES} or more.`,
      ),
    ],
    warnings: when(
      maxBytes < largest && maxBytes >= HEADER_BYTES,
      `The dead-letter topic '${topic}' takes records of at most ${maxBytes} bytes (max.message.bytes), the topics ` +
        `that are read take ${largest}: a large record could not be dead-lettered and would hold up its key. Set it ` +
        `to ${largest + HEADER_BYTES} or more.`,
    ),
  }
}

export function topicFindings(
  { topic, retentionMs = 0, isCompacted }: TopicFacts,
  { dedupWindowMs }: GuardSettings,
): Findings {
  const isFiniteTime = Number.isFinite(retentionMs)
  return {
    problems: when(
      isFiniteTime && !isCompacted && retentionMs > dedupWindowMs,
      `Topic '${topic}' keeps records for ${retentionMs} ms (retention.ms), longer than the guard's ` +
        `\`dedupWindowMs\` of ${dedupWindowMs}: after a reset of the offsets a record could come back when its ` +
        'event was forgotten, and be processed twice. Raise `dedupWindowMs` or lower the retention.',
    ),
    warnings: when(
      !isFiniteTime || isCompacted,
      `Topic '${topic}' keeps records without a limit, the guard remembers an event for \`dedupWindowMs\`, ` +
        `${dedupWindowMs} ms. Older records are processed again when the offsets of the group are reset or lost. ` +
        'Raise `dedupWindowMs` to the longest replay you mean to survive.',
    ),
  }
}

/** Checks the settings alone (brokers.md §5.5, §12). */
export function timeFindings(
  { consumer }: ConsumerSettings,
  { hasLeases, leaseMs }: GuardSettings,
): Findings {
  const { sessionTimeout, heartbeatInterval, maxWaitTimeInMs } = consumer
  const third = Math.floor(sessionTimeout / 3)
  return {
    problems: when(
      consumer.readUncommitted === true,
      '`consumer.readUncommitted` is true: records of transactions that their producer aborts would have effects, ' +
        'which nobody takes back. Leave it out.',
    ),
    warnings: [
      ...when(
        heartbeatInterval > third,
        `\`consumer.heartbeatInterval\` is ${heartbeatInterval}, more than a third of the sessionTimeout of ` +
          `${sessionTimeout} ms: two lost heartbeats end the membership. Set it to ${third} or less.`,
      ),
      ...when(
        maxWaitTimeInMs > third,
        `\`consumer.maxWaitTimeInMs\` is ${maxWaitTimeInMs}, more than a third of the sessionTimeout of ` +
          `${sessionTimeout} ms: kafkajs sends heartbeats between fetches. Set it to ${third} or less.`,
      ),
      ...when(
        hasLeases && leaseMs > sessionTimeout,
        `The guard's \`leaseMs\` is ${leaseMs}, longer than the sessionTimeout of ${sessionTimeout} ms: the records ` +
          'of a dead process come to another one that must wait for its leases. Shorten `leaseMs`, or raise ' +
          '`consumer.sessionTimeout`.',
      ),
      ...when(
        (consumer.retry?.retries ?? 5) < 5,
        `\`consumer.retry.retries\` is ${consumer.retry?.retries}: short outages then cost a rebalance. Leave it out.`,
      ),
      ...when(
        consumer.allowAutoTopicCreation === true,
        '`consumer.allowAutoTopicCreation` is true: a topic that is deleted comes back empty because it is consumed. ' +
          'Leave it out.',
      ),
    ],
  }
}
