import {
  type ChangeMessageVisibilityBatchCommandInput,
  type Message,
  type ReceiveMessageCommandOutput,
  SQSClient,
} from '@aws-sdk/client-sqs'
import type { SqsSource } from './queue.ts'

type OnReceive = (message: { readonly messageId: string; readonly order: string }) => void

/** An SQS client whose receives are watched here, because the adapter has no hook for tests. */
export function watchedClient(source: SqsSource, onReceive: OnReceive): SQSClient {
  const { connection, longestHiddenMs } = source
  // The endpoint may be a proxy, which the host in the queue's url must not bypass.
  const client = new SQSClient({ ...connection, maxAttempts: 1, useQueueUrlAsEndpoint: false })
  client.middlewareStack.add(
    (next, { commandName }) =>
      async (args) => {
        if (commandName === 'ChangeMessageVisibilityBatchCommand') {
          shorten(args.input as ChangeMessageVisibilityBatchCommandInput, longestHiddenMs)
        }
        const answer = await next(args)
        const { Messages = [] } = answer.output as Partial<ReceiveMessageCommandOutput>
        for (const message of Messages) {
          onReceive({ messageId: message.MessageId ?? '', order: orderOf(message) })
        }
        return answer
      },
    { step: 'initialize', name: 'watch' },
  )
  return client
}

const orderOf = ({ Body = '{}' }: Message): string => String(JSON.parse(Body).id)

function shorten(
  { Entries = [] }: ChangeMessageVisibilityBatchCommandInput,
  longestMs: number | undefined,
): void {
  if (longestMs === undefined) return
  for (const entry of Entries) {
    entry.VisibilityTimeout = Math.min(entry.VisibilityTimeout ?? 0, Math.ceil(longestMs / 1_000))
  }
}
