import type {
  Message,
  QueueAttributeName,
  SendMessageCommandInput,
  SQSClient,
} from '@aws-sdk/client-sqs'

/** What this package calls of an SQS client. Region, credentials, retries and sockets are the user's. */
export type SqsClient = Pick<SQSClient, 'send'>

/** Most entries of one batch request. */
export const ENTRIES = 10

export interface ReceiveRequest {
  readonly max: number
  readonly waitMs: number
  readonly visibilityMs: number
}

export interface VisibilityChange {
  readonly handle: string
  readonly seconds: number
}

/** An entry that SQS refused although it answered the request itself with 200. */
export interface RefusedEntry {
  readonly index: number
  /** True: the same request will be refused again. */
  readonly senderFault: boolean
  readonly code: string
}

export type QueueAttributes = Partial<Readonly<Record<QueueAttributeName, string>>>

/** The calls to one queue, each with a time limit. A call rejects with the client's error. */
export interface SqsApi {
  receive(request: ReceiveRequest, signal: AbortSignal): Promise<readonly Message[]>
  /** Longest long poll that the client waits for, ms. Undefined if the client has no limit, or before its first call. */
  longestPollMs(): number | undefined
  /** At most {@link ENTRIES}. */
  remove(handles: readonly string[]): Promise<readonly RefusedEntry[]>
  /** At most {@link ENTRIES}. */
  changeVisibility(
    changes: readonly VisibilityChange[],
    budgetMs?: number,
  ): Promise<readonly RefusedEntry[]>
  send(input: SendMessageCommandInput): Promise<void>
  attributes(queueUrl: string): Promise<QueueAttributes>
}
