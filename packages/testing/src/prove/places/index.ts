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
}

/** Creates a place with a name of its own. @throws {@link ProofError} without the client of the broker. */
export async function openPlace(address: BrokerAddress): Promise<Place<ProveBroker>> {
  const name = `onceward-prove-${randomBytes(5).toString('hex')}`
  try {
    switch (address.broker) {
      case 'sqs':
        return await (await import('./sqs.ts')).sqsPlace(address.config, name)
      case 'kafka':
        return await (await import('./kafka.ts')).kafkaPlace(address.config, name)
      case 'amqp':
        return await (await import('./amqp.ts')).amqpPlace(address.url, name)
      case 'redis-streams':
        return await (await import('./redis-streams.ts')).streamsPlace(address.url, name)
      default:
        return address satisfies never
    }
  } catch (error) {
    const client = CLIENTS[address.broker]
    if (error instanceof Error && Reflect.get(error, 'code') === 'ERR_MODULE_NOT_FOUND') {
      throw new ProofError(`The package ${client} is not installed. Run \`npm install ${client}\`.`)
    }
    throw error
  }
}
