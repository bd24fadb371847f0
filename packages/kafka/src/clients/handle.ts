import type { KafkaClientPort } from './port.ts'

/** A client for `consumeKafka` that is not kafkajs: what `platformatic(…)` and `confluent(…)` return. */
export interface KafkaClientHandle {
  /** The package of the client. */
  readonly name: string
}

const PORT = Symbol.for('onceward.kafka.client')

/** Hides the port from the public surface. */
export const handleOf = (port: KafkaClientPort): KafkaClientHandle =>
  Object.defineProperty({ name: port.name }, PORT, { value: port })

/** Undefined for anything that {@link handleOf} did not make. */
export function portOfHandle(value: unknown): KafkaClientPort | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  return Reflect.get(value, PORT) as KafkaClientPort | undefined
}
