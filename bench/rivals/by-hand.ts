import { DeleteMessageBatchCommand, type Message, ReceiveMessageCommand } from '@aws-sdk/client-sqs'
import type { Surroundings } from './rival.ts'

/** The most messages that SQS allows in one receive and one delete. */
export const MOST = 10

/** Concurrent receives: 20 messages in flight for 16 connections. */
export const POLLS = 2

/** The hand-written loop: handled messages are deleted, failed ones come back. */
export function consumeByHand(
  { sqs, queueUrl }: Pick<Surroundings, 'sqs' | 'queueUrl'>,
  handle: (message: Message) => Promise<void>,
): AsyncDisposable {
  const stop = new AbortController()
  const poll = async (): Promise<void> => {
    while (!stop.signal.aborted) {
      const messages = await receive()
      const ends = await Promise.allSettled(messages.map(handle))
      const done = messages.filter((_, index) => ends[index]?.status === 'fulfilled')
      if (done.length > 0) await remove(done)
    }
  }
  const receive = async (): Promise<readonly Message[]> => {
    const command = new ReceiveMessageCommand({
      ...{ QueueUrl: queueUrl, MaxNumberOfMessages: MOST, WaitTimeSeconds: 1 },
    })
    try {
      const { Messages = [] } = await sqs.send(command, { abortSignal: stop.signal })
      return Messages
    } catch (error) {
      if (stop.signal.aborted) return []
      throw error
    }
  }
  const remove = async (messages: readonly Message[]): Promise<void> => {
    const Entries = messages.map(({ ReceiptHandle }, index) => ({
      ...{ Id: String(index), ReceiptHandle },
    }))
    await sqs.send(new DeleteMessageBatchCommand({ QueueUrl: queueUrl, Entries }))
  }
  const polls = Promise.all(Array.from({ length: POLLS }, poll))
  return {
    [Symbol.asyncDispose]: async () => {
      stop.abort()
      await polls
    },
  }
}
