import { ConfigurationError } from '@onceward/core'
import { endsWithin, withTimeout } from '@onceward/core/adapter'
import { Admin, Producer } from '@platformatic/kafka'
import type { ConsumerSettings } from '../../options.ts'
import { handleOf, type KafkaClientHandle } from '../handle.ts'
import type { KafkaClientPort } from '../port.ts'
import { senderThrough } from '../producers.ts'
import { PlatformaticConsumer } from './consumer.ts'
import type { PlatformaticOptions } from './options.ts'
import { viewOf } from './view.ts'

export type { KafkaClientHandle } from '../handle.ts'
export type { PlatformaticOptions } from './options.ts'

/** For all calls of one connection together. */
const ASK_MS = 20_000
const CLOSE_MS = 2_000
/** Of `consumer`, what only kafkajs has. */
const KAFKAJS_ONLY = ['partitionAssigners', 'maxInFlightRequests', 'readUncommitted', 'rackId']

/**
 * `@platformatic/kafka` as the client of `consumeKafka`, which makes its own consumers with these options.
 *
 * @throws {@link ConfigurationError} without `clientId` and `bootstrapBrokers`.
 *
 * @example
 * ```ts
 * import { consumeKafka } from '@onceward/kafka'
 * import { platformatic } from '@onceward/kafka/platformatic'
 *
 * const client = platformatic({ clientId: 'billing', bootstrapBrokers: ['localhost:9092'] })
 * const consumption = await consumeKafka(client, billing, { topics: ['orders'] })
 * ```
 */
export function platformatic(options: PlatformaticOptions): KafkaClientHandle {
  const { bootstrapBrokers, clientId } = options ?? {}
  if (typeof clientId !== 'string' || !Array.isArray(bootstrapBrokers)) {
    throw new ConfigurationError(
      'Expected platformatic to get `{ clientId, bootstrapBrokers }`, as a Consumer of @platformatic/kafka gets them.',
    )
  }
  // Outages are answered here, by another consumer; a topic that was deleted must not hold the others meanwhile.
  const client = { retries: 2, retryDelay: 250, ...options }
  return handleOf(portOf(client))
}

const portOf = (client: PlatformaticOptions): KafkaClientPort => ({
  name: '@platformatic/kafka',
  check: ({ consumer }: ConsumerSettings) => {
    const given = KAFKAJS_ONLY.filter((name) => Reflect.get(consumer, name) !== undefined)
    if (given.length === 0) return
    throw new ConfigurationError(
      `\`consumer.${given.join('`, `consumer.')}\` is an option of kafkajs. Leave it out, or give platformatic({ … }) ` +
        'what @platformatic/kafka has for it.',
    )
  },
  ask: async (ask, { runtime }) => {
    const admin = new Admin(client)
    try {
      const asking = ask(viewOf(admin))
      return await withTimeout(runtime, asking, { call: 'the cluster', budgetMs: ASK_MS })
    } finally {
      await endsWithin(runtime, admin.close(), CLOSE_MS)
    }
  },
  consumers: () => (options, events) => new PlatformaticConsumer(client, options, events),
  createSender: () => {
    const producer = new Producer(client)
    return { ...senderThrough(producer), close: () => producer.close() }
  },
})
