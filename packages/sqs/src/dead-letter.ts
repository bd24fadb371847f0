import type { MessageAttributeValue, SendMessageCommandInput } from '@aws-sdk/client-sqs'
import type { Delivery } from '@onceward/core'
import type { DeadLetterPlace } from '@onceward/core/adapter'
import {
  type DeadLetter,
  deadLetterHeaders,
  isDeadLetterHeader,
  type Publish,
} from '@onceward/core/ports'
import type { SqsApi } from './client.ts'
import { allowed, MOST_ATTRIBUTES, textAttribute } from './clients/attributes.ts'
import { sqsMessage } from './delivery.ts'
import { classifyError } from './errors.ts'
import { isFifo, type Settings } from './options.ts'

type Attributes = Readonly<Record<string, MessageAttributeValue>>

/** What a copy cannot have as its own, because SQS would take the copy for the original or for another one's copy. */
const DEDUPLICATION_ID = 'x-onceward-deduplication-id'
const GROUP_ID = 'x-onceward-group-id'
const CARRIED: readonly string[] = [DEDUPLICATION_ID, GROUP_ID]
/** From here on an error of another name may mean the size too: the smallest limit that servers have is 256 KiB. */
const LARGE_BYTES = 200 * 1_024

export function placeOf(api: Pick<SqsApi, 'send'>, { deadLetter }: Settings): DeadLetterPlace {
  if (deadLetter === undefined) return { kind: 'record' }
  if (deadLetter === 'redrive') return { kind: 'broker' }
  return { kind: 'publish', publish: createPublisher(api, deadLetter.queueUrl) }
}

/** Sends dead letters to a queue; resolves once SQS has stored the message. */
export function createPublisher(api: Pick<SqsApi, 'send'>, queueUrl: string): Publish {
  return async (letter) => {
    const message = deadLetterMessage(letter, queueUrl)
    try {
      await api.send(message)
    } catch (error) {
      const { kind } = classifyError(error)
      const isTooLarge =
        kind === 'too-large' || (kind === 'other' && sizeOf(message) >= LARGE_BYTES)
      if (!isTooLarge) throw error
      // The headers with the reason may not fit, so the message is sent without them.
      await api.send({ ...message, MessageAttributes: originalAttributes(letter.delivery) })
    }
  }
}

/** The original message, with as many of the headers that give the reason as ten attributes allow. */
export function deadLetterMessage(letter: DeadLetter, queueUrl: string): SendMessageCommandInput {
  const { delivery } = letter
  const group = sqsMessage(delivery)?.Attributes?.MessageGroupId
  return {
    QueueUrl: queueUrl,
    ...originalMessage(delivery),
    MessageAttributes: attributesOf(letter),
    ...(isFifo(queueUrl)
      ? {
          // Both are at most 128 characters long, as SQS requires. The id is that of the message, as in a redrive by
          // SQS: the original's own id would swallow the dead letter of a message that was moved back and died again.
          MessageGroupId: group ?? delivery.orderingKey ?? letter.consumer,
          MessageDeduplicationId: delivery.messageId ?? letter.ref.id,
        }
      : {}),
  }
}

/** The body, the attributes and the trace header that the producer gave a message. */
export function originalMessage(
  delivery: Delivery,
): Pick<SendMessageCommandInput, 'MessageBody' | 'MessageAttributes' | 'MessageSystemAttributes'> {
  const live = sqsMessage(delivery)
  const trace = live?.Attributes?.AWSTraceHeader
  return {
    MessageBody: Buffer.from(delivery.body).toString('utf8'),
    MessageAttributes: originalAttributes(delivery),
    ...(trace === undefined
      ? {}
      : {
          MessageSystemAttributes: { AWSTraceHeader: { DataType: 'String', StringValue: trace } },
        }),
  }
}

/** Original attributes come first, because the event key may be among them, and a redrive needs it. */
function attributesOf(letter: DeadLetter): Attributes {
  const originals = Object.entries(originalAttributes(letter.delivery))
  const { MessageDeduplicationId: id, MessageGroupId: group } =
    sqsMessage(letter.delivery)?.Attributes ?? {}
  const {
    'x-onceward-item': item,
    'x-onceward-reason': reason,
    ...headers
  } = deadLetterHeaders(letter)
  // What belongs to the message comes before everything but the reason. Without its mark an item is no item any more.
  const reasons = {
    ...(item === undefined ? {} : { 'x-onceward-item': item }),
    ...(reason === undefined ? {} : { 'x-onceward-reason': reason }),
    ...(id === undefined ? {} : { [DEDUPLICATION_ID]: id }),
    ...(group === undefined ? {} : { [GROUP_ID]: group }),
    ...headers,
  }
  const ours = Object.entries(reasons).map(([name, value]): [string, MessageAttributeValue] => [
    name,
    textAttribute(allowed(value)),
  ])
  return Object.fromEntries([...originals, ...ours].slice(0, MOST_ATTRIBUTES))
}

function originalAttributes(delivery: Delivery): Attributes {
  const live = sqsMessage(delivery)
  const stored = Object.entries(delivery.headers).flatMap(
    ([name, value]): [string, MessageAttributeValue][] =>
      value === undefined || value === '' ? [] : [[name, textAttribute(allowed(value))]],
  )
  const entries = live === undefined ? stored : Object.entries(live.MessageAttributes ?? {})
  // Attributes of an earlier dead letter would contradict the new ones.
  const isOwn = ([name]: readonly [string, unknown]): boolean =>
    !(isDeadLetterHeader(name) || CARRIED.includes(name.toLowerCase()))
  return Object.fromEntries(entries.filter(isOwn))
}

function sizeOf({ MessageBody, MessageAttributes }: SendMessageCommandInput): number {
  return Buffer.byteLength(MessageBody ?? '') + Buffer.byteLength(JSON.stringify(MessageAttributes))
}
