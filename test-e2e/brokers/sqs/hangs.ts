import { ReceiveMessageCommand, SendMessageCommand, type SQSClient } from '@aws-sdk/client-sqs'
import { consumeSqs, receiveAttributes, wrapSqs } from '@onceward/sqs'
import type { TcpProxy } from '@onceward/testing'
import { addressOf } from '../../fuzz/hangs/address.ts'
import {
  DRAIN_MS,
  type HangBroker,
  loop,
  type Subject,
  type SubjectParts,
} from '../../fuzz/hangs/subject.ts'
import type { SqsQueue } from './queue.ts'
import { startSqs } from './server.ts'
import { watchedClient } from './watched-client.ts'

/** The user's own loop gives a receive up after this time. */
const RECEIVE_MS = 4_000

/** What is hidden comes back soon, so that a case need not wait for minutes. */
const LONGEST_HIDDEN_MS = 2_000

/** A message whose delete was lost comes back soon. */
const VISIBILITY_MS = 6_000

/** The broker with the consumers of its adapter. */
export async function startHangBroker(): Promise<HangBroker> {
  const running = await startSqs({ visibilityMs: VISIBILITY_MS })
  const { endpoint } = running.server.connection as { readonly endpoint: string }
  return {
    server: running.server,
    address: addressOf(endpoint),
    createQueue: () => running.createQueue(),
    start: (parts) => startSubject(parts as SubjectParts<SqsQueue>),
  }
}

async function startSubject(parts: SubjectParts<SqsQueue>): Promise<Subject> {
  const { queue, guard, links, isWrapped } = parts
  const { queueUrl, deadUrl, visibilityMs } = queue.source
  const clientOf = (link: TcpProxy | undefined): SQSClient => {
    const { connection } = queue.source
    const endpoint = link && `http://${link.host}:${link.port}`
    const through = { ...connection, ...(endpoint === undefined ? {} : { endpoint }) }
    const source = { ...queue.source, connection: through, longestHiddenMs: LONGEST_HIDDEN_MS }
    return watchedClient(source, () => undefined)
  }
  const clients = { receive: clientOf(links?.broker), publish: clientOf(links?.publish) }
  const send = (command: never, ...rest: readonly never[]): Promise<never> => {
    const isLetter = (command as object) instanceof SendMessageCommand
    return clients[isLetter ? 'publish' : 'receive'].send(command, ...rest)
  }
  const client = { send } as Pick<SQSClient, 'send'>
  const options = { queueUrl, deadLetter: { queueUrl: deadUrl }, visibilityMs }
  const close = async (): Promise<void> => {
    for (const each of Object.values(clients)) each.destroy()
  }
  if (!isWrapped) {
    const consumption = await consumeSqs(client, guard, {
      ...options,
      longPollMs: 1_000,
      drainMs: DRAIN_MS,
    })
    return { health: () => consumption.health(), drain: () => consumption.drain(), close }
  }
  const handle = wrapSqs(client, guard, options)
  const receiving = loop(async () => {
    const command = new ReceiveMessageCommand({
      ...{ QueueUrl: queueUrl, MaxNumberOfMessages: 4, WaitTimeSeconds: 1 },
      VisibilityTimeout: visibilityMs / 1_000,
      ...receiveAttributes,
    })
    const abortSignal = AbortSignal.timeout(RECEIVE_MS)
    const { Messages } = await client.send(command, { abortSignal })
    void handle(Messages)
  })
  return {
    health: () => handle.consumption.health(),
    drain: async () => {
      await receiving.stop()
      await handle.consumption.drain()
    },
    close,
  }
}
