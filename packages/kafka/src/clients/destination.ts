import type { Confirmation, Destination, OutgoingMessage } from '@onceward/core'
import { outgoingHeaders, refuseUnfitClient, refuseUnknownNames } from '@onceward/core/adapter'
import { classifyError } from '../errors.ts'
import { type KafkaProducer, type SentRecord, senderThrough } from './producers.ts'

/** Options of {@link kafkaDestination}. */
export interface KafkaDestinationOptions {
  readonly topic: string
}

const BATCH = 500

/**
 * A topic as a destination of the outbox's relay. The key of a message is the key of its record, so messages of one key
 * keep their order in one partition. Records are confirmed by all in-sync replicas.
 *
 * @param producer - A connected producer of kafkajs, or one of `@platformatic/kafka` without serializers; `idempotent: true` keeps its
 * own retries from making copies.
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
  const advice = 'Give `kafka.producer()`, connected, or a Producer without serializers.'
  refuseUnfitClient(place, producer, {
    expected: 'a producer of kafkajs or @platformatic/kafka',
    methods: ['send'],
    advice,
  })
  refuseUnknownNames(place, options, { topic: true })
  const { topic } = options
  const sender = senderThrough(producer)
  const send = (messages: readonly OutgoingMessage[]): Promise<void> =>
    sender.send(topic, messages.map(toRecord))
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

function toRecord(message: OutgoingMessage): SentRecord {
  const { key, payload } = message
  return {
    key: key ?? null,
    value: Buffer.from(payload),
    headers: outgoingHeaders(message, 'ce_'),
  }
}
