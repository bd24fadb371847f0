import {
  ChangeMessageVisibilityBatchCommand,
  DeleteMessageBatchCommand,
  GetQueueAttributesCommand,
  ReceiveMessageCommand,
  SendMessageCommand,
} from '@aws-sdk/client-sqs'
import { CallTimeoutError, isError, refuseUnfitClient } from '@onceward/core/adapter'
import type { Runtime } from '@onceward/core/ports'
import type { RefusedEntry, SqsApi, SqsClient } from '../client.ts'
import { receiveAttributes } from '../options.ts'
import { longestPollMs } from './answer-limit.ts'

const CALL_MS = 10_000
/** Added to the long poll: a receive on a connection that went silent must not wait without end. */
const RECEIVE_SLACK_MS = 10_000

/** @throws {@link ConfigurationError} for anything but a client of version 3. */
export function refuseOtherSqsClient(place: 'consumeSqs' | 'wrapSqs', client: unknown): void {
  const expected = 'a client of @aws-sdk/client-sqs'
  const advice = 'Give `new SQSClient()`: the services of aws-sdk 2 do not fit.'
  refuseUnfitClient(place, client, { expected, methods: ['send'], advice })
}

export function createSqsApi(client: SqsClient, queueUrl: string, runtime: Runtime): SqsApi {
  const bounded = bounds(runtime)
  return {
    longestPollMs: () => longestPollMs(client),
    receive: async ({ max, waitMs, visibilityMs }, signal) => {
      const command = new ReceiveMessageCommand({
        QueueUrl: queueUrl,
        MaxNumberOfMessages: max,
        WaitTimeSeconds: Math.ceil(waitMs / 1_000),
        VisibilityTimeout: visibilityMs / 1_000,
        ...receiveAttributes,
      })
      const limits = { call: 'ReceiveMessage', budgetMs: waitMs + RECEIVE_SLACK_MS, outer: signal }
      const output = await bounded(limits, (abortSignal) => client.send(command, { abortSignal }))
      return output?.Messages ?? []
    },
    remove: async (handles) => {
      const entries = handles.map((ReceiptHandle, index) => ({ Id: String(index), ReceiptHandle }))
      const command = new DeleteMessageBatchCommand({ QueueUrl: queueUrl, Entries: entries })
      const limits = { call: 'DeleteMessageBatch', budgetMs: CALL_MS }
      const output = await bounded(limits, (abortSignal) => client.send(command, { abortSignal }))
      return refusedOf(entries, output)
    },
    changeVisibility: async (changes, budgetMs = CALL_MS) => {
      const entries = changes.map(({ handle, seconds }, index) => ({
        Id: String(index),
        ReceiptHandle: handle,
        VisibilityTimeout: seconds,
      }))
      const input = { QueueUrl: queueUrl, Entries: entries }
      const command = new ChangeMessageVisibilityBatchCommand(input)
      const limits = { call: 'ChangeMessageVisibilityBatch', budgetMs }
      const output = await bounded(limits, (abortSignal) => client.send(command, { abortSignal }))
      return refusedOf(entries, output)
    },
    send: async (input) => {
      const command = new SendMessageCommand(input)
      const limits = { call: 'SendMessage', budgetMs: CALL_MS }
      const output = await bounded(limits, (abortSignal) => client.send(command, { abortSignal }))
      // The original of a dead letter is deleted next, so an answer without a MessageId counts as a failure.
      if (output?.MessageId === undefined) throw new Error(NOT_SENT)
    },
    attributes: async (url) => {
      const command = new GetQueueAttributesCommand({ QueueUrl: url, AttributeNames: ['All'] })
      const limits = { call: 'GetQueueAttributes', budgetMs: CALL_MS }
      const output = await bounded(limits, (abortSignal) => client.send(command, { abortSignal }))
      return output?.Attributes ?? {}
    },
  }
}

const NOT_SENT =
  'SendMessage was answered without a MessageId, so the message may not be in the queue. Check for a proxy that answers for SQS.'
/** Neither taken nor refused: SQS names every entry of a request, so something else has answered. */
const NOT_ANSWERED = 'the answer does not name this entry'

interface BatchAnswer {
  readonly Successful?: readonly { readonly Id: string | undefined }[] | undefined
  readonly Failed?: readonly FailedEntry[] | undefined
}

interface FailedEntry {
  readonly Id: string | undefined
  readonly SenderFault: boolean | undefined
  readonly Code: string | undefined
}

/**
 * Entries that a list of successes does not name are refused too, and a refusal counts more than a success. An answer
 * without the list refuses only what it says: the worst is that a message comes again.
 */
function refusedOf(
  entries: readonly { readonly Id: string }[],
  answer: BatchAnswer | undefined,
): readonly RefusedEntry[] {
  const taken = answer?.Successful && new Set(answer.Successful.map(({ Id }) => Id))
  const failed = new Map(answer?.Failed?.map((entry) => [entry.Id, entry]))
  return entries.flatMap(({ Id }, index) => {
    const refusal = failed.get(Id)
    if (refusal === undefined) {
      const isTaken = taken === undefined || taken.has(Id)
      return isTaken ? [] : [{ index, senderFault: false, code: NOT_ANSWERED }]
    }
    const { Code = 'unknown', SenderFault = false } = refusal
    return [{ index, senderFault: SenderFault, code: Code }]
  })
}

interface Limits {
  readonly call: string
  readonly budgetMs: number
  readonly outer?: AbortSignal | undefined
}

/** Rejects when the time is over, because a client may ignore the aborted signal. */
function bounds(runtime: Runtime) {
  return async <T>(limits: Limits, call: (signal: AbortSignal) => Promise<T>): Promise<T> => {
    const { budgetMs, outer } = limits
    const { promise: over, reject } = Promise.withResolvers<never>()
    over.catch(() => undefined)
    // AbortSignal.any() would cost more than the rest of this function, once per request.
    const controller = new AbortController()
    const end = (reason: unknown): void => {
      controller.abort(reason)
      reject(reason)
    }
    const ended = (): void => end(outer?.reason)
    outer?.addEventListener('abort', ended)
    if (outer?.aborted) ended()
    const late = (): void => end(new CallTimeoutError(limits.call, budgetMs))
    const cancel = runtime.setTimer(late, budgetMs)
    try {
      return await Promise.race([call(controller.signal), over])
    } catch (error) {
      throw withoutRequest(error)
    } finally {
      cancel()
      outer?.removeEventListener('abort', ended)
    }
  }
}

/** How SQS quotes a request whose signature is wrong. */
const QUOTED_REQUEST = /The (?:Canonical String|String-to-Sign)\b/

/** A quoted request holds the session token, and errors go to logs and to `health()`. */
function withoutRequest(error: unknown): unknown {
  if (!isError(error)) return error
  const { name, message } = error
  const quotedAt = message.search(QUOTED_REQUEST)
  if (quotedAt === -1) return error
  const told = new Error(message.slice(0, quotedAt).trimEnd())
  return Object.assign(told, { name, $metadata: Reflect.get(error, '$metadata') })
}
