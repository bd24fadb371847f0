import type { AmqpConnection, ConsumeAmqpOptions } from '@onceward/amqp'
import type { Consumption, Guard } from '@onceward/core'
import type { ConsumeKafkaOptions, KafkaClient, KafkaClientHandle } from '@onceward/kafka'
import type { ConsumeNatsOptions, NatsClient } from '@onceward/nats'
import type { ConsumeStreamOptions, StreamClient } from '@onceward/redis-streams'
import type { ConsumeSqsOptions, SqsClient } from '@onceward/sqs'
import { loadFor } from './package-loader.ts'

/**
 * Where messages come from. `sqsBroker(client)` and its siblings make one. Implement it for a broker of your own.
 *
 * @typeParam Place - The options that say where a consumer reads.
 */
export interface Broker<Place extends object = never> {
  consume(guard: Guard, place: Place): Promise<Consumption>
}

/** The options of a consumer beside those of its guard, by broker. Add a broker of your own by declaration merging. */
export interface Places {
  readonly amqp: Omit<ConsumeAmqpOptions, 'signal'>
  readonly kafka: Omit<ConsumeKafkaOptions, 'signal'>
  readonly nats: Omit<ConsumeNatsOptions, 'signal'>
  readonly sqs: Omit<ConsumeSqsOptions, 'signal'>
  readonly streams: Omit<ConsumeStreamOptions, 'signal'>
}

type WithoutConsumer<Given> = Given extends unknown ? Omit<Given, 'consumer'> : never

/**
 * Where a consumer reads, and how: the options of `consumeSqs` and its siblings. Beside those of a guard, `consumer` is its
 * name: the settings of a Kafka consumer are given to {@link kafkaBroker}, the name of one of NATS to {@link natsBroker}.
 */
export type Place = WithoutConsumer<Places[keyof Places]>

/** Consumes from Amazon SQS. Needs the package `@onceward/sqs`. */
export const sqsBroker = (client: SqsClient): Broker<Places['sqs']> => ({
  consume: async (guard, place) => {
    const load = () => import('@onceward/sqs')
    const { consumeSqs } = await loadFor('sqsBroker', '@onceward/sqs', load)
    return consumeSqs(client, guard, place)
  },
})

/**
 * Consumes from Kafka. Needs the package `@onceward/kafka`.
 *
 * @param kafka - A `Kafka` of kafkajs, or what `platformatic(…)` and `confluent(…)` of `@onceward/kafka` make.
 * @param settings - Of the consumers, as `consumer` of `consumeKafka`.
 */
export const kafkaBroker = (
  kafka: KafkaClient | KafkaClientHandle,
  settings: Pick<ConsumeKafkaOptions, 'consumer'> = {},
): Broker<Places['kafka']> => ({
  consume: async (guard, place) => {
    const load = () => import('@onceward/kafka')
    const { consumeKafka } = await loadFor('kafkaBroker', '@onceward/kafka', load)
    return consumeKafka(kafka, guard, { ...settings, ...place })
  },
})

/**
 * Consumes from RabbitMQ. Needs the package `@onceward/amqp`.
 *
 * @param connection - A function that connects is called again after each loss of the connection.
 */
export const amqpBroker = (
  connection: AmqpConnection | (() => Promise<AmqpConnection>),
): Broker<Places['amqp']> => ({
  consume: async (guard, place) => {
    const load = () => import('@onceward/amqp')
    const { consumeAmqp } = await loadFor('amqpBroker', '@onceward/amqp', load)
    return consumeAmqp(connection, guard, place)
  },
})

/** Consumes Redis Streams. Needs the package `@onceward/redis-streams`. */
export const streamBroker = (client: StreamClient): Broker<Places['streams']> => ({
  consume: async (guard, place) => {
    const load = () => import('@onceward/redis-streams')
    const { consumeStream } = await loadFor('streamBroker', '@onceward/redis-streams', load)
    return consumeStream(client, guard, place)
  },
})

/**
 * Consumes from a stream of NATS JetStream. Needs the package `@onceward/nats`.
 *
 * @param connection - Of `connect()` of `@nats-io/transport-node`.
 * @param settings - `consumer` names the pull consumer, if it is another name than that of the guard.
 */
export const natsBroker = (
  connection: NatsClient,
  settings: Pick<ConsumeNatsOptions, 'consumer'> = {},
): Broker<Places['nats']> => ({
  consume: async (guard, place) => {
    const load = () => import('@onceward/nats')
    const { consumeNats } = await loadFor('natsBroker', '@onceward/nats', load)
    return consumeNats(connection, guard, { ...settings, ...place })
  },
})
