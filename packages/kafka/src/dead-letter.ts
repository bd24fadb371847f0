import type { Delivery } from '@onceward/core'
import { type DeadLetterPlace, type GuardPort, registerPublisher } from '@onceward/core/adapter'
import {
  type DeadLetter,
  deadLetterHeaders,
  isDeadLetterHeader,
  type Publish,
} from '@onceward/core/ports'
import {
  type KafkaProducer,
  type SentHeader,
  type SentRecord,
  senderThrough,
} from './clients/producers.ts'
import { type KafkaRecord, kafkaMessage } from './delivery.ts'
import { classifyError } from './errors.ts'
import type { Settings } from './options.ts'

/** JSON list of the headers whose value is null in the original, `name` or `name[index]`. */
const NULL_HEADERS = 'x-onceward-null-headers'

/** One publisher for each `deadLetter` option: the guard distinguishes the places by their publishers. */
const PUBLISHERS = new WeakMap<object, Publish>()

export function placeOf({ deadLetter }: Pick<Settings, 'deadLetter'>): DeadLetterPlace {
  if (deadLetter === undefined) return { kind: 'record' }
  const { producer, topic } = deadLetter
  const publish = PUBLISHERS.get(deadLetter) ?? createPublisher(producer, topic)
  PUBLISHERS.set(deadLetter, publish)
  return { kind: 'publish', publish }
}

/** What {@link TopicPublishers} asks of the open batches. The id becomes known later, or never: see `wrapKafka`. */
interface OfCluster {
  readonly clusterId: string | undefined
}

/** Registers the publisher of dead letters for topics as they become known. */
export class TopicPublishers {
  readonly #port: Pick<GuardPort, 'registerPublisher'>
  readonly #place: DeadLetterPlace
  readonly #of: OfCluster
  readonly #registered = new Map<string, () => void>()

  constructor(
    port: Pick<GuardPort, 'registerPublisher'>,
    settings: Pick<Settings, 'deadLetter'>,
    of: OfCluster,
  ) {
    this.#port = port
    this.#place = placeOf(settings)
    this.#of = of
  }

  register(topics: Iterable<string>): void {
    for (const queue of topics) {
      if (this.#registered.has(queue)) continue
      const of = this.#of
      const source = {
        ...{ broker: 'kafka', queue },
        get namespace() {
          return of.clusterId
        },
      }
      this.#registered.set(queue, registerPublisher(this.#port, source, this.#place))
    }
  }

  close(): void {
    for (const unregister of this.#registered.values()) unregister()
    this.#registered.clear()
  }
}

/** Publishes dead letters to a topic; resolves once every in-sync replica has the record. */
export function createPublisher(producer: KafkaProducer, topic: string): Publish {
  const sender = senderThrough(producer)
  return async (letter) => {
    const send = (reasons: 'reasons' | 'bare'): Promise<void> =>
      sender.send(topic, [deadLetterMessage(letter, reasons)])
    try {
      await send('reasons')
    } catch (error) {
      const { kind, text } = classifyError(error)
      // The words of the clients do not say what to do.
      if (kind === 'invalid-record') throw new Error(text, { cause: error })
      if (kind !== 'too-large') throw error
      // The headers that say why may not fit beside the value, so the record is sent with its own headers alone.
      await send('bare')
    }
  }
}

/**
 * The original record with the headers that say why it is dead. It has its own time: with the original's, the retention
 * of the dead-letter topic might delete it at once.
 */
export function deadLetterMessage(
  letter: DeadLetter,
  says: 'reasons' | 'bare' = 'reasons',
): SentRecord {
  const nulls: string[] = []
  const original = originalMessage(letter.delivery, nulls)
  const reasons = says === 'bare' ? {} : deadLetterHeaders(letter)
  return {
    ...original,
    headers: Object.fromEntries([
      ...Object.entries(original.headers),
      ...(nulls.length === 0 ? [] : [[NULL_HEADERS, JSON.stringify(nulls)] as const]),
      ...Object.entries(reasons),
    ]),
  }
}

/**
 * The key, the value and the headers that the producer gave a record.
 *
 * @param nulls - Gets the names of headers without a value, which kafkajs can read but not send: they are sent empty.
 */
export function originalMessage(delivery: Delivery, nulls: string[] = []): SentRecord {
  const live = kafkaMessage(delivery)?.message
  return {
    key: live === undefined ? (delivery.orderingKey ?? null) : live.key,
    value: live === undefined ? storedValue(delivery.body) : live.value,
    headers: Object.fromEntries(ownHeaders(live?.headers ?? delivery.headers, nulls)),
  }
}

/** A delivery without its record does not distinguish a tombstone from an empty value. */
const storedValue = (body: Uint8Array): Buffer | null =>
  body.byteLength === 0 ? null : Buffer.from(body)

/** The original's headers without those of an earlier dead letter. */
function ownHeaders(
  headers: NonNullable<KafkaRecord['message']['headers']>,
  nulls: string[],
): readonly (readonly [string, SentHeader])[] {
  return Object.entries(headers).flatMap(([name, value]): (readonly [string, SentHeader])[] => {
    const isOurs = isDeadLetterHeader(name) || name.toLowerCase() === NULL_HEADERS
    if (value === undefined || isOurs) return []
    const empty = (one: string | Buffer | null, position: string): string | Buffer => {
      if (one !== null) return one
      nulls.push(position)
      return Buffer.alloc(0)
    }
    const sent = Array.isArray(value)
      ? value.map((one, index) => empty(one, `${name}[${index}]`))
      : empty(value, name)
    return [[name, sent]]
  })
}
