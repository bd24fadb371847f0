import type { Delivery } from '@onceward/core'
import { type DeadLetterPlace, type GuardPort, registerPublisher } from '@onceward/core/adapter'
import {
  type DeadLetter,
  deadLetterHeaders,
  isDeadLetterHeader,
  type Publish,
} from '@onceward/core/ports'
import type { IHeaders, Message, Producer } from 'kafkajs'
import { kafkaMessage } from './delivery.ts'
import { classifyError } from './errors.ts'
import type { Settings } from './options.ts'

/** JSON list of the headers whose value is null in the original, `name` or `name[index]`. */
const NULL_HEADERS = 'x-onceward-null-headers'
/** Every in-sync replica must have the dead letter before the offset passes the original. */
const ALL_REPLICAS = -1

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
export function createPublisher(producer: Pick<Producer, 'send'>, topic: string): Publish {
  return async (letter) => {
    const send = async (reasons: 'reasons' | 'bare'): Promise<void> => {
      const messages = [deadLetterMessage(letter, reasons)]
      refuseUnsent(topic, await producer.send({ topic, acks: ALL_REPLICAS, messages }))
    }
    try {
      await send('reasons')
    } catch (error) {
      if (classifyError(error).kind !== 'too-large') throw error
      // The headers that say why may not fit beside the value, so the record is sent with its own headers alone.
      await send('bare')
    }
  }
}

/**
 * kafkajs drops a record whose partition the topic does not have, and answers as if it were stored: a list without an
 * entry. Only a partitioner can name such a partition.
 */
export function refuseUnsent(topic: string, answer: unknown): void {
  if (!Array.isArray(answer) || answer.length > 0) return
  throw new Error(
    `kafkajs sent nothing to '${topic}': the partitioner of its producer named a partition that the topic does not ` +
      'have. Let `createPartitioner` answer the number of a partition, for records without a key too.',
  )
}

/**
 * The original record with the headers that say why it is dead. It has its own time: with the original's, the retention
 * of the dead-letter topic might delete it at once.
 */
export function deadLetterMessage(
  letter: DeadLetter,
  says: 'reasons' | 'bare' = 'reasons',
): Message {
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

type OriginalMessage = Pick<Message, 'key' | 'value'> & { readonly headers: IHeaders }

/**
 * The key, the value and the headers that the producer gave a record.
 *
 * @param nulls - Gets the names of headers without a value, which kafkajs can read but not send: they are sent empty.
 */
export function originalMessage(delivery: Delivery, nulls: string[] = []): OriginalMessage {
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
function ownHeaders(headers: IHeaders, nulls: string[]): readonly (readonly [string, Value])[] {
  return Object.entries(headers).flatMap(([name, value]): (readonly [string, Value])[] => {
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

type Value = string | Buffer | (string | Buffer)[]
