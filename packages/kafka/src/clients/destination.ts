import type { Confirmation, Destination, OutgoingMessage } from '@onceward/core'
import { outgoingHeaders, refuseUnfitClient, refuseUnknownNames } from '@onceward/core/adapter'
import { type BrokerErrorKind, classifyError } from '../errors.ts'
import { type KafkaProducer, type SentRecord, senderThrough } from './producers.ts'

/** Options of {@link kafkaDestination}. */
export interface KafkaDestinationOptions {
  readonly topic: string
}

const BATCH = 500
/** Keys, values and headers of one request: a topic takes 1,048,588 bytes unless it says otherwise. */
const REQUEST_BYTES = 900_000
/** What a record and each of its headers have beside their texts, at most. */
const FRAME_BYTES = 40

/**
 * A topic as a destination of the outbox's relay. The key of a message is the key of its record, so messages of one key
 * keep their order in one partition. Records are confirmed by all in-sync replicas.
 *
 * @param producer - A connected producer of kafkajs, or one of `@platformatic/kafka` without serializers. Of kafkajs without
 * `idempotent: true`: after a record that is refused, such a producer fails until the process ends. Guards drop the copies
 * that retries make.
 * @throws {@link ConfigurationError}
 *
 * @example
 * ```ts
 * import { kafkaDestination } from '@onceward/kafka'
 * import { startRelay } from '@onceward/postgres/outbox'
 * import { Kafka } from 'kafkajs'
 *
 * const producer = new Kafka({ brokers: ['localhost:9092'] }).producer()
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
    const requests = requestsOf(messages)
    const answers: Confirmation[] = []
    for (const request of requests) {
      try {
        answers.push(...(await publishRequest(request)))
      } catch (error) {
        if (answers.length === 0) throw error
        const down = messages.slice(answers.length).map(() => ({ down: error }))
        return [...answers, ...down]
      }
    }
    return answers
  }
  const publishRequest = async (
    messages: readonly OutgoingMessage[],
  ): Promise<readonly Confirmation[]> => {
    try {
      await send(messages)
      return messages.map(() => undefined)
    } catch (error) {
      if (!OF_RECORD.has(classifyError(error).kind)) throw error
      const [only] = messages
      if (only !== undefined && messages.length === 1) return [{ refused: error }]
    }
    return oneByOne(messages)
  }
  /** The broker does not take one of them. Those behind it of its key wait. */
  const oneByOne = async (
    messages: readonly OutgoingMessage[],
  ): Promise<readonly Confirmation[]> => {
    const answers: Confirmation[] = []
    const stopped = new Map<string | undefined, unknown>()
    for (const message of messages) {
      const { key } = message
      if (key !== undefined && stopped.has(key)) answers.push({ unknown: stopped.get(key) })
      else {
        const [answer] = await publishRequest([message])
        if (answer !== undefined && key !== undefined) stopped.set(key, answer.refused)
        answers.push(answer)
      }
    }
    return answers
  }
  return { batch: BATCH, keepsOrder: true, publish }
}

const OF_RECORD: ReadonlySet<BrokerErrorKind> = new Set(['too-large', 'invalid-record'] as const)

/** A request that is too large fails as a whole. */
function requestsOf(messages: readonly OutgoingMessage[]): readonly (readonly OutgoingMessage[])[] {
  const requests: OutgoingMessage[][] = []
  let bytes = Number.POSITIVE_INFINITY
  for (const message of messages) {
    const size = bytesOf(message)
    if (bytes + size > REQUEST_BYTES) {
      requests.push([])
      bytes = 0
    }
    bytes += size
    requests.at(-1)?.push(message)
  }
  return requests
}

function bytesOf({ headers, key = '', payload, source, type }: OutgoingMessage): number {
  const texts = Object.entries({ ...headers, key, source, type }).flat()
  const ofTexts = texts.reduce((sum, text) => sum + Buffer.byteLength(text) + FRAME_BYTES, 0)
  return payload.byteLength + ofTexts + 10 * FRAME_BYTES
}

function toRecord(message: OutgoingMessage): SentRecord {
  const { key, payload } = message
  return {
    key: key ?? null,
    value: Buffer.from(payload),
    headers: outgoingHeaders(message, 'ce_'),
  }
}
