import type { KafkaConnection } from '@onceward/testing/servers'
import { Kafka, type KafkaConfig, logLevel } from 'kafkajs'
import type { KafkaClient } from '../../../packages/kafka/src/client.ts'
import {
  handleOf,
  type KafkaClientHandle,
  portOfHandle,
} from '../../../packages/kafka/src/clients/handle.ts'
import { isConfluentBuilt } from '../../../packages/kafka/src/fixtures/confluent-built.ts'

/** The clients that `consumeKafka` takes, as `--client` and the tests name them. */
export const CLIENT_NAMES = [
  'kafkajs',
  'confluent',
  'confluent-848',
  'platformatic',
  'platformatic-848',
] as const

export type ClientName = (typeof CLIENT_NAMES)[number]

type AnyClient = KafkaClient | KafkaClientHandle

const isClientName = (name: string): name is ClientName =>
  CLIENT_NAMES.some((each) => each === name)

let turns = 0

/**
 * `ONCEWARD_KAFKA_CLIENT`; with `each`, as in the night, all of them in turn. Otherwise the one that the seed of the commit
 * draws, with the protocol that all of them have.
 */
export function drawnClient(
  among: readonly ClientName[] = ['kafkajs', 'platformatic'],
): ClientName {
  const given = process.env['ONCEWARD_KAFKA_CLIENT']
  if (given !== undefined && isClientName(given)) return given
  const seed = Number(process.env['ONCEWARD_COMMIT_SEED'] ?? 0)
  if (given !== 'each') return among[seed % among.length] ?? 'kafkajs'
  const there = CLIENT_NAMES.filter((name) => !name.startsWith('confluent') || isConfluentBuilt())
  turns += 1
  return there[(seed + turns) % there.length] ?? 'kafkajs'
}

interface ClientOptions {
  readonly clientId: string
  readonly kafkajs?: Partial<KafkaConfig> | undefined
  /** Called with the values of the records that the client gives the adapter, which has no hook for tests. */
  readonly onRecords: (values: readonly (Buffer | null)[]) => void
}

/** A client whose fetches are watched. */
export async function openClient(
  name: ClientName,
  { brokers, ...connection }: KafkaConnection,
  { clientId, kafkajs, onRecords }: ClientOptions,
): Promise<AnyClient> {
  if (name === 'kafkajs') {
    const quiet = { ...connection, brokers: [...brokers], clientId, logLevel: logLevel.NOTHING }
    return watchedKafkajs(new Kafka({ ...quiet, ...kafkajs }), onRecords)
  }
  const groupProtocol = name.endsWith('848') ? 'consumer' : 'classic'
  if (name.startsWith('platformatic')) {
    const { platformatic } = await import('@onceward/kafka/platformatic')
    const client = platformatic({ clientId, bootstrapBrokers: [...brokers], groupProtocol })
    return watchedPulled(client, onRecords)
  }
  const { confluent } = await import('@onceward/kafka/confluent')
  const client = confluent({
    ...{ 'bootstrap.servers': brokers.join(), 'client.id': clientId },
    'group.protocol': groupProtocol,
  })
  return watchedPulled(client, onRecords)
}

function watchedKafkajs(client: Kafka, onRecords: ClientOptions['onRecords']): Kafka {
  const consumerOf = client.consumer.bind(client)
  client.consumer = (config) => {
    const consumer = consumerOf(config)
    const run = consumer.run.bind(consumer)
    consumer.run = ({ eachBatch, ...rest } = {}) =>
      run({
        ...rest,
        eachBatch: async (payload) => {
          onRecords(payload.batch.messages.map(({ value }) => value))
          await eachBatch?.(payload)
        },
      })
    return consumer
  }
  return client
}

/** Any client that is asked for records. */
function watchedPulled(
  client: KafkaClientHandle,
  onRecords: ClientOptions['onRecords'],
): KafkaClientHandle {
  const port = portOfHandle(client)
  if (port === undefined) throw new Error('no client of onceward')
  return handleOf({
    ...port,
    consumers: () => {
      const create = port.consumers()
      return (options, events) => {
        const consumer = create(options, events)
        const fetch = consumer.fetch.bind(consumer)
        consumer.fetch = async (most) => {
          const fetched = await fetch(most)
          for (const { records } of fetched) onRecords(records.map(({ message }) => message.value))
          return fetched
        }
        return consumer
      }
    },
  })
}
