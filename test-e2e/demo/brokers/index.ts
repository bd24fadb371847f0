import type { DemoBroker } from './broker.ts'

export type BrokerName = 'sqs' | 'kafka' | 'amqp'

/** Each is loaded when it is asked for: a worker begins sooner with one client than with three. */
const BROKERS: Readonly<Record<BrokerName, () => Promise<DemoBroker>>> = {
  sqs: async () => (await import('./sqs.ts')).sqsDemo,
  kafka: async () => (await import('./kafka.ts')).kafkaDemo,
  amqp: async () => (await import('./amqp.ts')).amqpDemo,
}

export const BROKER_NAMES: readonly string[] = Object.keys(BROKERS)

export const isBrokerName = (name: string): name is BrokerName => name in BROKERS

export const loadBroker = (name: BrokerName): Promise<DemoBroker> => BROKERS[name]()
