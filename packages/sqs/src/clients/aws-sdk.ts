import {
  ChangeMessageVisibilityBatchCommand,
  DeleteMessageBatchCommand,
  GetQueueAttributesCommand,
  ReceiveMessageCommand,
  SendMessageCommand,
} from '@aws-sdk/client-sqs'
import type { Runtime } from '@onceward/core'
import { CallTimeoutError, refuseUnfitClient } from '@onceward/core/adapter'
import type { RefusedEntry, SqsApi, SqsClient } from '../client.ts'
import { receiveAttributes } from '../options.ts'
import { longestPollMs } from './answer-limit.ts'

const CALL_MS = 10_000
/** Added to the long poll: a receive on a connection that went silent must not wait for ever. */
const RECEIVE_SLACK_MS = 10_000

/** @throws {@link ConfigurationError} for anything but a client of version 3. */
export function refuseOtherSqsClient(place: 'consumeSqs' | 'wrapSqs', client: unknown): void {
  const expected = 'a client of @aws-sdk/client-sqs'
  const advice = 'Give `new SQSClient()`: the services of aws-sdk 2 do not fit.'
  refuseUnfitClient({ place, expected, methods: ['send'], advice }, client)
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
      return refusedOf(output?.Failed)
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
      return refusedOf(output?.Failed)
    },
    send: async (input) => {
      const command = new SendMessageCommand(input)
      const limits = { call: 'SendMessage', budgetMs: CALL_MS }
      await bounded(limits, (abortSignal) => client.send(command, { abortSignal }))
    },
    attributes: async (url) => {
      const command = new GetQueueAttributesCommand({ QueueUrl: url, AttributeNames: ['All'] })
      const limits = { call: 'GetQueueAttributes', budgetMs: CALL_MS }
      const output = await bounded(limits, (abortSignal) => client.send(command, { abortSignal }))
      return output?.Attributes ?? {}
    },
  }
}

interface FailedEntry {
  readonly Id: string | undefined
  readonly SenderFault: boolean | undefined
  readonly Code: string | undefined
}

const refusedOf = (failed: readonly FailedEntry[] = []): readonly RefusedEntry[] =>
  failed.map(({ Id, SenderFault, Code }) => ({
    index: Number(Id),
    senderFault: SenderFault ?? false,
    code: Code ?? 'unknown',
  }))

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
    outer?.addEventListener('abort', ended, { once: true })
    if (outer?.aborted) ended()
    const late = (): void => end(new CallTimeoutError(limits.call, budgetMs))
    const cancel = runtime.setTimer(late, budgetMs)
    try {
      return await Promise.race([call(controller.signal), over])
    } finally {
      cancel()
      outer?.removeEventListener('abort', ended)
    }
  }
}
