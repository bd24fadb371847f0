import { amqp } from './amqp/index.ts'
import type { BrokerDefinition } from './broker.ts'
import { kafka } from './kafka/index.ts'
import { nats } from './nats/index.ts'
import { redisStreams } from './redis-streams/index.ts'
import { sqs } from './sqs/index.ts'

/** The one list of brokers outside their packages and pages. A name is also the name of the broker's package. */
export const BROKER_NAMES = ['sqs', 'kafka', 'amqp', 'redis-streams', 'nats'] as const

export type BrokerName = (typeof BROKER_NAMES)[number]

export const BROKERS: Readonly<Record<BrokerName, BrokerDefinition>> = {
  ...{ sqs, kafka, amqp, nats },
  'redis-streams': redisStreams,
}

/** Where a command or a test needs any one broker. */
export const DEFAULT_BROKER: BrokerName = 'sqs'

export const isBrokerName = (name: string): name is BrokerName => Object.hasOwn(BROKERS, name)

export const brokersWith = (
  isWanted: (definition: BrokerDefinition) => boolean,
): readonly BrokerName[] => BROKER_NAMES.filter((name) => isWanted(BROKERS[name]))
