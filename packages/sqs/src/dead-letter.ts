import type { MessageAttributeValue, SendMessageCommandInput } from '@aws-sdk/client-sqs'
import { type DeadLetter, deadLetterHeaders, type Publish } from '@onceward/core'
import type { DeadLetterPlace } from '@onceward/core/adapter'
import type { SqsApi } from './client.ts'
import { sqsMessage } from './delivery.ts'
import { classifyError } from './errors.ts'
import { isFifo, type Settings } from './options.ts'

type Attributes = Readonly<Record<string, MessageAttributeValue>>

/** SQS: attributes of one message. */
const MOST_ATTRIBUTES = 10
const OURS = 'x-onceward-'
/** Smaller messages are never too large for SQS, unless the queue has a lower limit. */
const LARGE_BYTES = 200 * 1_024

/** What the SQS API refuses in a text. */
const NOT_ALLOWED = /[^\t\n\r\u{20}-\u{D7FF}\u{E000}-\u{FFFD}\u{10000}-\u{10FFFF}]/gu

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
      if (!(kind === 'too-large' || kind === 'other') || sizeOf(message) < LARGE_BYTES) throw error
      // The headers with the reason may not fit, so the message is sent without them.
      await api.send({ ...message, MessageAttributes: originalAttributes(letter) })
    }
  }
}

/** The original message, with as many of the headers that give the reason as ten attributes allow. */
export function deadLetterMessage(letter: DeadLetter, queueUrl: string): SendMessageCommandInput {
  const { delivery } = letter
  return {
    QueueUrl: queueUrl,
    MessageBody: Buffer.from(delivery.body).toString('utf8'),
    MessageAttributes: attributesOf(letter),
    ...(isFifo(queueUrl)
      ? {
          // Both are at most 128 characters long, as SQS requires.
          MessageGroupId: delivery.orderingKey ?? letter.consumer,
          MessageDeduplicationId: delivery.messageId ?? letter.ref.id,
        }
      : {}),
  }
}

/** Original attributes come first, because the event key may be among them, and a redrive needs it. */
function attributesOf(letter: DeadLetter): Attributes {
  const originals = Object.entries(originalAttributes(letter))
  const reasons = Object.entries(deadLetterHeaders(letter)).map(
    ([name, value]): [string, MessageAttributeValue] => [name, textAttribute(value)],
  )
  return Object.fromEntries([...originals, ...reasons].slice(0, MOST_ATTRIBUTES))
}

function originalAttributes({ delivery }: DeadLetter): Attributes {
  const live = sqsMessage(delivery)?.MessageAttributes
  const stored = Object.entries(delivery.headers).flatMap(
    ([name, value]): [string, MessageAttributeValue][] =>
      value === undefined || value === '' ? [] : [[name, textAttribute(value)]],
  )
  const entries = live === undefined ? stored : Object.entries(live)
  // Headers of an earlier dead letter would contradict the new ones.
  return Object.fromEntries(entries.filter(([name]) => !name.toLowerCase().startsWith(OURS)))
}

function textAttribute(value: string): MessageAttributeValue {
  return { DataType: 'String', StringValue: value.replaceAll(NOT_ALLOWED, '\u{FFFD}') }
}

function sizeOf({ MessageBody, MessageAttributes }: SendMessageCommandInput): number {
  return Buffer.byteLength(MessageBody ?? '') + Buffer.byteLength(JSON.stringify(MessageAttributes))
}
