import { type DeadLetter, deadLetterHeaders, type Publish } from '@onceward/core'
import type { IHeaders, Message, Producer } from 'kafkajs'
import { kafkaMessage } from './delivery.ts'
import { troubleOf } from './errors.ts'

const OURS = 'x-onceward-'
/** Every in-sync replica has it: the original is passed next. */
const ALL_REPLICAS = -1

/** Publishes dead letters to a topic; resolves once every in-sync replica has the record. */
export function createPublisher(producer: Pick<Producer, 'send'>, topic: string): Publish {
  return async (letter) => {
    const message = deadLetterMessage(letter)
    try {
      await producer.send({ topic, acks: ALL_REPLICAS, messages: [message] })
    } catch (error) {
      if (troubleOf(error).kind !== 'too-large') throw error
      // It may be the reason that does not fit beside the value, so the value goes with its own headers alone.
      const bare = { ...message, headers: originalHeaders(letter) }
      await producer.send({ topic, acks: ALL_REPLICAS, messages: [bare] })
    }
  }
}

/** The original record with the headers that say why it is here. */
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

/** Without those of an earlier death, which would contradict the new ones. */
function originalHeaders({ delivery }: DeadLetter): IHeaders {
  const headers: IHeaders = kafkaMessage(delivery)?.message.headers ?? delivery.headers
  return Object.fromEntries(
    Object.entries(headers).filter(
      ([name, value]) => value !== undefined && !name.toLowerCase().startsWith(OURS),
    ),
  )
}
