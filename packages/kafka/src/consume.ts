import { ConfigurationError, type Consumption } from '@onceward/core'
import {
  type ClientRule,
  type ConsumerLoop,
  forCaller,
  type Guard,
  type GuardPort,
  type LoopSignals,
  portOf,
  refuseUnfitClient,
  startConsumption,
} from '@onceward/core/adapter'
import type { KafkaClient } from './client.ts'
import { type KafkaClientHandle, portOfHandle } from './clients/handle.ts'
import type { KafkaClientPort, OwnSender } from './clients/port.ts'
import { producerOf } from './clients/producers.ts'
import { TopicPublishers } from './dead-letter.ts'
import { Dispatcher } from './dispatch.ts'
import { examine } from './doctor.ts'
import { classifyError } from './errors.ts'
import {
  type ConsumeKafkaOptions,
  type ConsumerSettings,
  checkConsumeNames,
  resolveConsumerSettings,
} from './options.ts'
import { Receiver } from './receive.ts'

const CLIENT: ClientRule = {
  expected: 'a client of kafkajs',
  methods: ['admin', 'consumer'],
  advice: 'Give `new Kafka({ … })` itself, not one of its consumers: `consumeKafka` makes its own.',
}

/**
 * Consumes topics for as long as the process lives, with a consumer of its own, and a new one whenever the client has
 * ended the old one. It disconnects what it made; the client and the producer stay yours.
 *
 * Resolves when the store and the topics have been checked and the group was joined. When Kafka or the store cannot
 * be reached then, it resolves too and keeps trying: see `health()`.
 *
 * @throws {@link ConfigurationError} for options, topics or groups that cannot work, a missing topic included.
 *
 * @example
 * ```ts
 * import { consumeKafka } from '@onceward/kafka'
 *
 * const producer = kafka.producer()
 * await producer.connect()
 * const consumption = await consumeKafka(kafka, billing, {
 *   topics: ['orders'],
 *   deadLetter: { producer, topic: 'orders.dead' },
 * })
 * process.once('SIGTERM', () => consumption.drain())
 * await consumption.stopped
 * await billing.close()
 * ```
 */
export async function consumeKafka(
  kafka: KafkaClient | KafkaClientHandle,
  guard: Guard,
  options: ConsumeKafkaOptions,
): Promise<Consumption> {
  return await forCaller(consumeKafka, async () => {
    const port = portOf(guard)
    checkConsumeNames(options)
    const { given, sender } = withSender(options, portOfHandle(kafka))
    const settings = resolveConsumerSettings(given, port.settings)
    const client = await clientOf(kafka)
    client.check(settings)
    return startConsumption({
      port,
      drainMs: settings.drainMs,
      signal: options.signal,
      queue: settings.topics.map(String).join(', '),
      describe: (error) => classifyError(error).text,
      createLoop: (signals) => createLoop({ port, client, settings, sender, signals }),
    })
  })
}

/** Dead letters without a producer are sent by one of the client itself. */
function withSender(
  options: ConsumeKafkaOptions,
  client: KafkaClientPort | undefined,
): { readonly given: ConsumeKafkaOptions; readonly sender?: OwnSender } {
  const { deadLetter } = options
  if (!deadLetter || deadLetter.producer !== undefined || client?.createSender === undefined) {
    return { given: options }
  }
  const sender = client.createSender()
  const producer = producerOf(sender)
  return { sender, given: { ...options, deadLetter: { ...deadLetter, producer } } }
}

const COMPATIBLE =
  'consumeKafka got the compatible client of @confluentinc/kafka-javascript, whose consumers lose records. Give ' +
  "`confluent({ 'bootstrap.servers': … })` of @onceward/kafka/confluent: it uses the native consumer of the same package."

/** Its class is called as that of kafkajs, which has a `logger` too. Its own methods take other options. */
function looksCompatible(kafka: unknown): boolean {
  if (typeof kafka !== 'object' || kafka === null || 'logger' in kafka) return false
  return Object.getPrototypeOf(kafka)?.constructor?.name === 'Kafka' && 'producer' in kafka
}

/** kafkajs is loaded only if it is used. */
async function clientOf(kafka: KafkaClient | KafkaClientHandle): Promise<KafkaClientPort> {
  const client = portOfHandle(kafka)
  if (client !== undefined) return client
  if (looksCompatible(kafka)) throw new ConfigurationError(COMPATIBLE)
  refuseUnfitClient('consumeKafka', kafka, CLIENT)
  const { kafkajsClient } = await import('./clients/kafkajs/index.ts')
  return kafkajsClient(kafka as KafkaClient)
}

interface Parts {
  readonly port: GuardPort
  readonly client: KafkaClientPort
  readonly sender: OwnSender | undefined
  readonly settings: ConsumerSettings
  readonly signals: LoopSignals
}

function createLoop({ port, client, settings, sender, signals }: Parts): ConsumerLoop {
  const receiver: Receiver = new Receiver({
    port,
    settings,
    create: client.consumers(),
    check: async () => {
      await port.open()
      await examine({ client, settings, port })
    },
    onRunnable: () => dispatcher.pump(),
    onJoined: (topics) => publishers.register(topics),
    onEnd: signals.onEnd,
  })
  const { batches } = receiver
  const dispatcher: Dispatcher = new Dispatcher({
    port,
    settings,
    batches,
    signals,
    onKnown: (settlement) => receiver.known(settlement),
  })
  const publishers = new TopicPublishers(port, settings, batches)
  publishers.register(settings.topics.filter((topic) => typeof topic === 'string'))
  signals.abort.addEventListener('abort', () => batches.abort(), { once: true })
  return {
    receiver,
    dispatcher,
    settling: batches,
    // An unsettled record keeps its lease. Its offset was not committed, so the record is delivered again.
    finish: async () => {
      dispatcher.close()
      publishers.close()
      await receiver.finish()
      await sender?.close().catch(() => undefined)
    },
  }
}
