import { refuseProblems, withTimeout } from '@onceward/core/adapter'
import type { ConsumerSettings } from '../../options.ts'
import { handleOf, type KafkaClientHandle } from '../handle.ts'
import type { KafkaClientPort } from '../port.ts'
import { Cluster } from './cluster.ts'
import { type ConfluentConfig, checkConfig, clientConfig } from './config.ts'
import { ConfluentConsumer } from './consumer.ts'
import { ConfluentError, confluentError } from './errors.ts'
import { loadRdkafka } from './rdkafka.ts'
import { ConfluentSender } from './sender.ts'

export type { KafkaClientHandle } from '../handle.ts'
export type { ConfluentConfig } from './config.ts'

/** For all calls of one connection together. */
const ASK_MS = 20_000

/** Settings of kafkajs in `consumer` of `consumeKafka` that have an own name here. */
const SHARED = [
  'groupId',
  'sessionTimeout',
  'heartbeatInterval',
  'maxWaitTimeInMs',
  'retry',
  'allowAutoTopicCreation',
]

/**
 * `@confluentinc/kafka-javascript` for `consumeKafka`: its native consumer, built on librdkafka, with the classic and the
 * newer group protocol (KIP-848). Offsets are committed by onceward alone. The package is an optional peer.
 *
 * @param config - Settings of librdkafka. Those that would lose records are refused by name, as `enable.auto.commit`.
 * @throws {@link ConfigurationError}
 *
 * @example
 * ```ts
 * import { consumeKafka } from '@onceward/kafka'
 * import { confluent } from '@onceward/kafka/confluent'
 *
 * const consumption = await consumeKafka(confluent({ 'bootstrap.servers': 'localhost:9092' }), billing, {
 *   topics: ['orders'],
 * })
 * ```
 */
export function confluent(config: ConfluentConfig): KafkaClientHandle {
  checkConfig(config)
  return handleOf(confluentClient({ ...config }))
}

const confluentClient = (config: ConfluentConfig): KafkaClientPort => ({
  name: '@confluentinc/kafka-javascript',
  check,
  ask: async (ask, { runtime }) => {
    const rdkafka = loadRdkafka()
    let trouble: ConfluentError | undefined
    const listeners = {
      'event.error': (error: unknown) => {
        const event = confluentError(error)
        // The events after the first one only say that no broker is left. Refused credentials come after a connection.
        if (trouble === undefined || event.type === 'SASL_AUTHENTICATION_FAILED') trouble = event
      },
    }
    const admin = rdkafka.AdminClient.create(clientConfig(config), listeners)
    const asking = ask(new Cluster(rdkafka, admin))
    try {
      return await withTimeout(runtime, asking, { call: 'the cluster', budgetMs: ASK_MS })
    } catch (error) {
      // The event says why; the call only that it timed out.
      const isAnswer = !(error instanceof ConfluentError) || error.isAnswer
      throw isAnswer ? error : (trouble ?? error)
    } finally {
      // Not before the answer: librdkafka is freed under a call that is under way.
      void asking.catch(() => undefined).finally(() => admin.disconnect())
    }
  },
  consumers: () => {
    const rdkafka = loadRdkafka()
    return (options, events) => new ConfluentConsumer({ config, rdkafka }, options, events)
  },
  createSender: () => new ConfluentSender(config),
})

function check({ consumer }: ConsumerSettings): void {
  const others = Object.keys(consumer).filter((name) => !SHARED.includes(name))
  refuseProblems(
    others.map(
      (name) =>
        `Expected \`consumer.${name}\` to be left out: it is a setting of kafkajs. Give the setting of librdkafka to \`confluent\`.`,
    ),
  )
}
