import type { Confirmation, Destination, OutgoingMessage } from '@onceward/core'
import { outgoingHeaders, refuseUnfitClient, refuseUnknownNames } from '@onceward/core/adapter'
import type { Message, Producer } from 'kafkajs'
import { refuseUnsent } from '../dead-letter.ts'
import { classifyError } from '../errors.ts'

/** Options of {@link kafkaDestination}. */
export interface KafkaDestinationOptions {
  readonly topic: string
}

/** What {@link kafkaDestination} calls of a producer. */
export type KafkaProducer = Pick<Producer, 'send'>

/** Every in-sync replica must have a record before the outbox forgets its message. */
const ALL_REPLICAS = -1
const BATCH = 500

/**
 * A topic as a destination of the outbox's relay. The key of a message is the key of its record, so messages of one key
 * keep their order in one partition. Records are confirmed by all in-sync replicas.
 *
 * @param producer - A connected producer of kafkajs; `idempotent: true` keeps its own retries from making copies.
 * @throws {@link ConfigurationError}
 *
 * @example
 * ```ts
 * import { kafkaDestination } from '@onceward/kafka'
 * import { startRelay } from '@onceward/postgres/outbox'
 * import { Kafka } from 'kafkajs'
 *
 * const producer = new Kafka({ brokers: ['localhost:9092'] }).producer({ idempotent: true })
 * await producer.connect()
 * const payments = kafkaDestination(producer, { topic: 'payments' })
 * const relay = await startRelay({ pool, destinations: { payments } })
 * await relay.stopped
 * ```
 */
export function kafkaDestination(
  producer: KafkaProducer,
  options: KafkaDestinationOptions,
): Destination {
  const place = 'kafkaDestination'
  const advice = 'Give `kafka.producer()`, connected.'
  refuseUnfitClient(place, producer, {
    expected: 'a producer of kafkajs',
    methods: ['send'],
    advice,
  })
  refuseUnknownNames(place, options, { topic: true })
  const { topic } = options
  const send = async (messages: readonly OutgoingMessage[]): Promise<void> => {
    const records = messages.map(toRecord)
    refuseUnsent(topic, await producer.send({ topic, acks: ALL_REPLICAS, messages: records }))
  }
  const publish = async (
    messages: readonly OutgoingMessage[],
  ): Promise<readonly Confirmation[]> => {
    try {
      await send(messages)
      return messages.map(() => undefined)
    } catch (error) {
      if (classifyError(error).kind !== 'too-large') throw error
      const [only] = messages
      if (only !== undefined && messages.length === 1) return [{ refused: error }]
    }
    return oneByOne(messages)
  }
  /** One of them is too large. Those behind it of its key wait. */
  const oneByOne = async (
    messages: readonly OutgoingMessage[],
  ): Promise<readonly Confirmation[]> => {
    const answers: Confirmation[] = []
    const stopped = new Map<string | undefined, unknown>()
    for (const message of messages) {
      const { key } = message
      if (key !== undefined && stopped.has(key)) answers.push({ unknown: stopped.get(key) })
      else {
        const [answer] = await publish([message])
        if (answer !== undefined && key !== undefined) stopped.set(key, answer.refused)
        answers.push(answer)
      }
    }
    return answers
  }
  return { batch: BATCH, keepsOrder: true, publish }
}

function toRecord(message: OutgoingMessage): Message {
  const { key, payload } = message
  return {
    key: key ?? null,
    value: Buffer.from(payload),
    headers: outgoingHeaders(message, 'ce_'),
  }
}
