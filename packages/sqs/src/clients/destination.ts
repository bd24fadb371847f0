import { createHash } from 'node:crypto'
import { SendMessageBatchCommand, type SendMessageBatchRequestEntry } from '@aws-sdk/client-sqs'
import type { Confirmation, Destination, OutgoingMessage } from '@onceward/core'
import {
  givenContentType,
  messageOf,
  outgoingHeaders,
  refuseUnfitClient,
  refuseUnknownNames,
} from '@onceward/core/adapter'
import { ENTRIES, type SqsClient } from '../client.ts'
import { classifyError } from '../errors.ts'
import { isFifo } from '../options.ts'
import { isAllowed, MOST_ATTRIBUTES, textAttribute } from './attributes.ts'

/** Options of {@link sqsDestination}. */
export interface SqsDestinationOptions {
  readonly queueUrl: string
}

/** SQS: a group id. */
const GROUP_ID = /^[\x21-\x7e]{1,128}$/
const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/**
 * A queue as a destination of the outbox's relay. In a FIFO queue the key of a message is its group and the id of the
 * message its deduplication id; messages without a key have a group of their own. A standard queue keeps no order: there
 * the key is the group of a fair queue, so that a flood of one key does not hold up the others.
 *
 * Payloads must be text that SQS takes, and a message may have six headers of its own beside the four of onceward.
 *
 * @param client - `new SQSClient()`.
 * @throws {@link ConfigurationError}
 *
 * @example
 * ```ts
 * import { SQSClient } from '@aws-sdk/client-sqs'
 * import { startRelay } from '@onceward/postgres/outbox'
 * import { sqsDestination } from '@onceward/sqs'
 *
 * const mails = sqsDestination(new SQSClient(), { queueUrl: process.env.QUEUE_URL ?? '' })
 * const relay = await startRelay({ pool, destinations: { mails } })
 * await relay.stopped
 * ```
 */
export function sqsDestination(client: SqsClient, options: SqsDestinationOptions): Destination {
  const place = 'sqsDestination'
  const expected = 'a client of @aws-sdk/client-sqs'
  const advice = 'Give `new SQSClient()`: the services of aws-sdk 2 do not fit.'
  refuseUnfitClient(place, client, { expected, methods: ['send'], advice })
  refuseUnknownNames(place, options, { queueUrl: true })
  const { queueUrl } = options
  let takesGroups = isFifo(queueUrl) ? 'always' : 'maybe'
  const sent = async (
    all: readonly SendMessageBatchRequestEntry[],
    signal: AbortSignal,
  ): Promise<ReadonlyMap<string | undefined, Confirmation>> => {
    const entries = takesGroups === 'no' ? all.map(withoutGroup) : all
    const command = new SendMessageBatchCommand({ QueueUrl: queueUrl, Entries: [...entries] })
    try {
      const answer = await client.send(command, { abortSignal: signal })
      return answersOf(entries, answer)
    } catch (error) {
      // An older emulator takes groups in FIFO queues alone.
      if (takesGroups === 'maybe' && messageOf(error).includes('MessageGroupId')) {
        takesGroups = 'no'
        return sent(entries, signal)
      }
      if (classifyError(error).kind !== 'too-large') throw error
      const [only] = entries
      if (only !== undefined && entries.length === 1)
        return new Map([[only.Id, { refused: error }]])
    }
    const alone = await Promise.all(entries.map((entry) => sent([entry], signal)))
    return new Map(alone.flatMap((answers) => [...answers]))
  }
  return {
    batch: ENTRIES,
    publish: async (messages, signal) => {
      const made = messages.map((message, index) => toEntry(message, String(index), queueUrl))
      const entries = made.filter((one): one is SendMessageBatchRequestEntry => 'Id' in one)
      const answers = entries.length === 0 ? new Map() : await sent(entries, signal)
      return made.map((one) => ('Id' in one ? answers.get(one.Id) : one))
    },
  }
}

const withoutGroup = ({
  MessageGroupId: _,
  ...entry
}: SendMessageBatchRequestEntry): SendMessageBatchRequestEntry => entry

interface BatchAnswer {
  readonly Successful?: readonly { readonly Id?: string | undefined }[] | undefined
  readonly Failed?:
    | readonly {
        readonly Id?: string | undefined
        readonly SenderFault?: boolean | undefined
        readonly Code?: string | undefined
        readonly Message?: string | undefined
      }[]
    | undefined
}

/** Codes that say that the queue takes no message, although SQS calls some of them a fault of the sender. */
const OF_QUEUE = /kms|accessdenied|nonexistent|doesnotexist|throttl|overlimit/i

/** SQS may answer with 200 and refuse entries. One that is in neither list may or may not be in the queue. */
function answersOf(
  entries: readonly SendMessageBatchRequestEntry[],
  { Failed = [], Successful = [] }: BatchAnswer,
): ReadonlyMap<string | undefined, Confirmation> {
  const failed = new Map(Failed.map((one) => [one.Id, one]))
  const taken = new Set(Successful.map(({ Id }) => Id))
  return new Map(
    entries.map(({ Id }): readonly [string | undefined, Confirmation] => {
      const { Code, Message, SenderFault } = failed.get(Id) ?? {}
      if (!failed.has(Id) && taken.has(Id)) return [Id, undefined]
      const error = new Error(
        `SQS did not take the message: ${Code ?? 'no answer'} ${Message ?? ''}`,
      )
      if (Code !== undefined && OF_QUEUE.test(Code)) return [Id, { down: error }]
      return [Id, SenderFault === true ? { refused: error } : { unknown: error }]
    }),
  )
}

function toEntry(
  message: OutgoingMessage,
  Id: string,
  queueUrl: string,
): SendMessageBatchRequestEntry | { readonly refused: unknown } {
  const { id, key, payload } = message
  const MessageBody = bodyOf(payload)
  if (MessageBody === undefined) return { refused: new Error(NO_TEXT) }
  const { 'ce-specversion': _, ...headers } = outgoingHeaders(message, 'ce-')
  // Without a content type, a body is read as JSON.
  const isGiven = givenContentType(message.headers) !== undefined
  const named = Object.entries(headers).filter(
    ([name, value]) => value !== '' && (isGiven || name !== 'content-type'),
  )
  // A trace is worth less than its message.
  const attributes =
    named.length > MOST_ATTRIBUTES ? named.filter(([name]) => name !== 'traceparent') : named
  if (attributes.length > MOST_ATTRIBUTES) return { refused: new Error(TOO_MANY) }
  if (attributes.some(([, value]) => !isAllowed(value))) return { refused: new Error(NO_TEXT) }
  const MessageAttributes = Object.fromEntries(
    attributes.map(([name, value]) => [name, textAttribute(value)]),
  )
  return {
    ...{ Id, MessageBody, MessageAttributes },
    ...(isFifo(queueUrl)
      ? { MessageGroupId: groupOf(key ?? id), MessageDeduplicationId: id }
      : key !== undefined && { MessageGroupId: groupOf(key) }),
  }
}

const NO_TEXT =
  'SQS takes text alone, without control characters: send plain data, which leaves as JSON, or bytes as Base64.'
const TOO_MANY = `SQS takes ${MOST_ATTRIBUTES} attributes, of which onceward needs four: send fewer headers.`

function bodyOf(payload: Uint8Array): string | undefined {
  try {
    const text = UTF8.decode(payload)
    return text === '' || !isAllowed(text) ? undefined : text
  } catch {
    return undefined
  }
}

/** A key that SQS does not take as a group is its hash: the order is the same. */
const groupOf = (key: string): string =>
  GROUP_ID.test(key) ? key : createHash('sha256').update(key).digest('hex')
