import { randomBytes } from 'node:crypto'
import { ProofError } from '../errors.ts'
import type { ProveBroker } from '../proof.ts'
import type { Place } from './place.ts'

/** The broker of a proof. */
export type BrokerAddress =
  | { readonly broker: 'sqs'; readonly config: SqsConfig }
  | { readonly broker: 'kafka'; readonly config: KafkaConfig }
  | { readonly broker: 'amqp'; readonly url: string }
  | { readonly broker: 'redis-streams'; readonly url: string }
  | { readonly broker: 'nats'; readonly url: string }

/** What `new SQSClient(…)` takes; what is left out comes from the environment. */
export interface SqsConfig {
  readonly endpoint?: string
  readonly region?: string
  readonly credentials?: { readonly accessKeyId: string; readonly secretAccessKey: string }
}

/** What `new Kafka(…)` takes. */
export interface KafkaConfig {
  readonly brokers: readonly string[]
  readonly ssl?: boolean
  readonly sasl?: {
    readonly mechanism: 'plain'
    readonly username: string
    readonly password: string
  }
}

/** The client of each, which is a peer: the consumer of the user has it. */
const CLIENTS: Readonly<Record<ProveBroker, string>> = {
  sqs: '@aws-sdk/client-sqs',
  kafka: 'kafkajs',
  amqp: 'amqplib',
  'redis-streams': 'ioredis',
  nats: '@nats-io/transport-node',
}

/**
 * Creates a place.
 *
 * @param name - Default: a new one.
 * @throws {@link ProofError} without the client of the broker.
 */
export async function openPlace<Address extends BrokerAddress>(
  address: Address,
  name: string = `onceward-prove-${randomBytes(5).toString('hex')}`,
): Promise<Place<Address['broker']>> {
  try {
    return (await opened(address, name)) as Place<Address['broker']>
  } catch (error) {
    const client = CLIENTS[address.broker]
    if (error instanceof Error && Reflect.get(error, 'code') === 'ERR_MODULE_NOT_FOUND') {
      throw new ProofError(`The package ${client} is not installed. Run \`npm install ${client}\`.`)
    }
    throw error
  }
}

async function opened(address: BrokerAddress, name: string): Promise<Place<ProveBroker>> {
  switch (address.broker) {
    case 'sqs':
      return (await import('./sqs.ts')).sqsPlace(address.config, name)
    case 'kafka':
      return (await import('./kafka.ts')).kafkaPlace(address.config, name)
    case 'amqp':
      return (await import('./amqp.ts')).amqpPlace(address.url, name)
    case 'redis-streams':
      return (await import('./redis-streams.ts')).streamsPlace(address.url, name)
    case 'nats':
      return (await import('./nats.ts')).natsPlace(address.url, name)
    default:
      return address satisfies never
  }
}
