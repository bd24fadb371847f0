import { type DeadLetter, deadLetterHeaders, type Publish } from '@onceward/core'
import { type DeadLetterPlace, type GuardPort, registerPublisher } from '@onceward/core/adapter'
import type { IHeaders, Message, Producer } from 'kafkajs'
import { kafkaMessage } from './delivery.ts'
import { classifyError } from './errors.ts'
import type { Settings } from './options.ts'

const OURS = 'x-onceward-'
/** Every in-sync replica must have the dead letter before the offset passes the original. */
const ALL_REPLICAS = -1

export function placeOf({ deadLetter }: Pick<Settings, 'deadLetter'>): DeadLetterPlace {
  if (deadLetter === undefined) return { kind: 'record' }
  return { kind: 'publish', publish: createPublisher(deadLetter.producer, deadLetter.topic) }
}

/** Registers the publisher of dead letters for topics as they become known. */
export class TopicPublishers {
  readonly #port: Pick<GuardPort, 'registerPublisher'>
  readonly #place: DeadLetterPlace
  readonly #registered = new Map<string, () => void>()

  constructor(port: Pick<GuardPort, 'registerPublisher'>, settings: Pick<Settings, 'deadLetter'>) {
    this.#port = port
    this.#place = placeOf(settings)
  }

  register(topics: Iterable<string>): void {
    for (const queue of topics) {
      if (this.#registered.has(queue)) continue
      const unregister = registerPublisher(this.#port, { broker: 'kafka', queue }, this.#place)
      this.#registered.set(queue, unregister)
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
    const message = deadLetterMessage(letter)
    try {
      await producer.send({ topic, acks: ALL_REPLICAS, messages: [message] })
    } catch (error) {
      if (classifyError(error).kind !== 'too-large') throw error
      // The headers with the reason may not fit, so the record is sent with only its own headers.
      const bare = { ...message, headers: originalHeaders(letter) }
      await producer.send({ topic, acks: ALL_REPLICAS, messages: [bare] })
    }
  }
}

/** The original record with the headers that give the reason. */
export function deadLetterMessage(letter: DeadLetter): Message {
  const { delivery } = letter
  const live = kafkaMessage(delivery)?.message
  return {
    key: live === undefined ? (delivery.orderingKey ?? null) : live.key,
    value: live === undefined ? storedValue(delivery.body) : live.value,
    headers: { ...originalHeaders(letter), ...deadLetterHeaders(letter) },
  }
}

/** A tombstone is stored as an empty body. */
const storedValue = (body: Uint8Array): Buffer | null =>
  body.byteLength === 0 ? null : Buffer.from(body)

/** Drops headers of an earlier dead letter, which would contradict the new ones. */
function originalHeaders({ delivery }: DeadLetter): IHeaders {
  const headers: IHeaders = kafkaMessage(delivery)?.message.headers ?? delivery.headers
  return Object.fromEntries(
    Object.entries(headers).filter(
      ([name, value]) => value !== undefined && !name.toLowerCase().startsWith(OURS),
    ),
  )
}
