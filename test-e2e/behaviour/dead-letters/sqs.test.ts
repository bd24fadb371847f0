import {
  CreateQueueCommand,
  type Message,
  type MessageAttributeValue,
  ReceiveMessageCommand,
  SendMessageCommand,
  SQSClient,
} from '@aws-sdk/client-sqs'
import { consumeSqs, receiveAttributes, sqsMessage } from '@onceward/sqs'
import { skipped, sqs } from '@onceward/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { freshName } from '../../brokers/queue-under-test.ts'
import { sqsAddress } from '../../brokers/sqs/queue.ts'
import {
  diesWhole,
  diesWholeAgain,
  ID,
  type Letters,
  returnsWhole,
  withoutReasons,
} from './equal-messages.ts'

const text = (DataType: string, StringValue: string): MessageAttributeValue => ({
  ...{ DataType, StringValue },
})
const ATTRIBUTES: Readonly<Record<string, MessageAttributeValue>> = {
  text: text('String', 'ä\t'),
  custom: text('String.com.example', 'own'),
  number: text('Number', '12345678901234567890.123'),
  int: text('Number.int', '-7'),
  binary: { DataType: 'Binary', BinaryValue: new Uint8Array([0xff, 0, 0xfe]) },
  gif: { DataType: 'Binary.gif', BinaryValue: new Uint8Array([0]) },
  Case: text('String', 'a'),
  [`${'n'.repeat(200)}`]: text('String', 'long name'),
  'x-onceward-own': text('String', 'kept'),
}
const TRACE = 'Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1'
const MESSAGES: readonly (readonly [string, typeof ATTRIBUTES])[] = [
  ['{}', {}],
  ['ä\t\u{fffd}', ATTRIBUTES],
  ['x'.repeat(200_000), { a: text('String', 'a'), 'x-onceward-reason': text('String', 'old') }],
]

describe.skipIf(skipped('sqs'))('a dead letter of SQS', () => {
  let server: Awaited<ReturnType<typeof sqs>>
  beforeAll(async () => {
    server = await sqs()
  })
  afterAll(() => server?.stop())

  async function send(kind: '' | '.fifo'): Promise<Letters<Message> & Disposable> {
    const client = new SQSClient({ ...server.connection, maxAttempts: 10 })
    const name = freshName()
    const Attributes = kind === '' ? {} : { Attributes: { FifoQueue: 'true' } }
    const create = async (QueueName: string): Promise<string> =>
      (await client.send(new CreateQueueCommand({ QueueName, ...Attributes }))).QueueUrl ?? ''
    const queueUrl = await create(`${name}${kind}`)
    const deadUrl = await create(`${name}-dead${kind}`)
    for (const [index, [MessageBody, attributes]] of MESSAGES.entries()) {
      const MessageAttributes = { ...attributes, [ID]: text('String', String(index)) }
      const MessageSystemAttributes = { AWSTraceHeader: text('String', TRACE) }
      const fifo = { MessageGroupId: `g-${index}`, MessageDeduplicationId: `d-${index}` }
      await client.send(
        new SendMessageCommand({
          ...{ QueueUrl: queueUrl, MessageBody, MessageAttributes, MessageSystemAttributes },
          ...(kind === '' ? {} : fifo),
        }),
      )
    }
    const published = new Map<string, Message>()
    return {
      sent: MESSAGES.length,
      consume: (guard, publishes) =>
        consumeSqs(client, guard, {
          queueUrl,
          longPollMs: 1_000,
          ...(publishes ? { deadLetter: { queueUrl: deadUrl } } : {}),
        }),
      messageOf: sqsMessage,
      published: async () => {
        const request = { QueueUrl: deadUrl, MaxNumberOfMessages: 10, ...receiveAttributes }
        const { Messages = [] } = await client.send(new ReceiveMessageCommand(request))
        for (const each of Messages) {
          published.set(String(each.MessageAttributes?.[ID]?.StringValue), each)
        }
        return published
      },
      expectSame,
      operator: sqsAddress(server.connection, queueUrl),
      expectReturned,
      [Symbol.dispose]: () => client.destroy(),
    }
  }

  // Red when a dead letter is made of the text in its row.
  test.each(['', '.fifo'] as const)(
    'has every attribute of its message, of every type%s',
    async (kind) => {
      using letters = await send(kind)
      await diesWhole(letters)
    },
  )

  test.each(['', '.fifo'] as const)(
    'has them too after a restart, from the row, and so has its replay%s',
    async (kind) => {
      using letters = await send(kind)
      await diesWholeAgain(letters)
    },
  )

  // Red on FIFO queues under the deduplication id of the original: SQS drops the copy.
  test.each(['', '.fifo'] as const)('goes back to its queue as it came%s', async (kind) => {
    using letters = await send(kind)
    await returnsWhole(letters)
  })
})

function expectReturned(message: Message, original: Message): void {
  expect(message.Body).toBe(original.Body)
  const { 'x-onceward-reason': _reason, ...attributes } = original.MessageAttributes ?? {}
  expect(message.MessageAttributes ?? {}).toEqual(attributes)
  const { AWSTraceHeader, MessageGroupId, MessageDeduplicationId } = original.Attributes ?? {}
  expect(message.Attributes?.AWSTraceHeader).toBe(AWSTraceHeader)
  expect(message.Attributes?.MessageGroupId).toBe(MessageGroupId)
  if (MessageDeduplicationId !== undefined) {
    expect(message.Attributes?.MessageDeduplicationId).not.toBe(MessageDeduplicationId)
  }
}

function expectSame(letter: Message, original: Message): void {
  expect(letter.Body).toBe(original.Body)
  const own = original.MessageAttributes ?? {}
  expect(withoutReasons(letter.MessageAttributes ?? {})).toEqual(withoutReasons(own))
  expect(letter.MessageAttributes?.['x-onceward-own']).toEqual(own['x-onceward-own'])
  const { AWSTraceHeader, MessageGroupId } = original.Attributes ?? {}
  expect(letter.Attributes?.AWSTraceHeader).toBe(AWSTraceHeader)
  expect(letter.Attributes?.MessageGroupId).toBe(MessageGroupId)
  const count = Object.keys(letter.MessageAttributes ?? {}).length
  expect(count).toBeLessThanOrEqual(10)
  const reason = letter.MessageAttributes?.['x-onceward-reason']?.StringValue
  if (count < 10) expect(reason).toBe('fatal')
}
