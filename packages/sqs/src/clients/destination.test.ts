import { SendMessageBatchCommand, type SendMessageBatchRequestEntry } from '@aws-sdk/client-sqs'
import type { OutgoingMessage } from '@onceward/core'
import { expect, test } from 'vitest'
import { sqsDestination } from './destination.ts'

const signal = new AbortController().signal
const queueUrl = 'https://sqs.eu-west-1.amazonaws.com/000000000000/mails'
const text = (StringValue: string) => ({ DataType: 'String', StringValue })
const outgoing = (body: string | Uint8Array, over: Partial<OutgoingMessage> = {}) => ({
  ...{ id: `m-${body}`, source: 'billing', type: 'paid', headers: {} },
  ...{ contentType: 'application/json', payload: Buffer.from(body) },
  ...over,
})

type Answer = (entries: readonly SendMessageBatchRequestEntry[]) => object
const taken: Answer = (entries) => ({ Successful: entries.map(({ Id }) => ({ Id })) })

function setUp(answer: Answer = taken, url = queueUrl) {
  const sent: (readonly SendMessageBatchRequestEntry[])[] = []
  const send = async (command: unknown) => {
    if (!(command instanceof SendMessageBatchCommand)) throw new Error('another command')
    const entries = command.input.Entries ?? []
    sent.push(entries)
    return answer(entries)
  }
  return { sent, ...sqsDestination({ send } as never, { queueUrl: url }) }
}

test('a message is an entry with the attributes by which guards know it', async () => {
  const { publish, sent } = setUp()
  const message = outgoing('1', { headers: { trace: 't' }, key: 'k' })
  expect(await publish([message], signal)).toEqual([undefined])
  expect(sent).toEqual([
    [
      {
        ...{ Id: '0', MessageBody: '1', MessageGroupId: 'k' },
        MessageAttributes: {
          ...{ trace: text('t'), 'ce-id': text('m-1'), 'ce-source': text('billing') },
          ...{ 'ce-type': text('paid'), 'idempotency-key': text('m-1') },
        },
      },
    ],
  ])
})

test('a message with as many headers as SQS takes leaves without its trace', async () => {
  const { publish, sent } = setUp()
  const six = Object.fromEntries([1, 2, 3, 4, 5, 6].map((n) => [`h${n}`, 'v']))
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
  const message = outgoing('1', { headers: { ...six, traceparent } })
  expect(await publish([message], signal)).toEqual([undefined])
  const names = Object.keys(sent[0]?.[0]?.MessageAttributes ?? {})
  expect(names).toHaveLength(10)
  expect(names).not.toContain('traceparent')
})

test('a standard queue of an older emulator gets messages without their groups', async () => {
  const { publish, sent } = setUp((entries) => {
    if (entries.some(({ MessageGroupId }) => MessageGroupId !== undefined)) {
      throw new Error('The request include parameter MessageGroupId which is not valid')
    }
    return taken(entries)
  })
  const messages = [outgoing('1', { key: 'k' }), outgoing('2')]
  expect(await publish(messages, signal)).toEqual([undefined, undefined])
  expect(await publish(messages, signal)).toEqual([undefined, undefined])
  expect(sent).toHaveLength(3)
})

test('in a FIFO queue the key is the group, hashed if SQS does not take it, and the id deduplicates', async () => {
  const { publish, sent } = setUp(taken, `${queueUrl}.fifo`)
  const messages = [outgoing('1', { key: 'k' }), outgoing('2'), outgoing('3', { key: 'kö' })]
  await publish(messages, signal)
  expect(sent[0]).toMatchObject([
    { MessageGroupId: 'k', MessageDeduplicationId: 'm-1' },
    { MessageGroupId: 'm-2', MessageDeduplicationId: 'm-2' },
    { MessageGroupId: expect.stringMatching(/^[\da-f]{64}$/), MessageDeduplicationId: 'm-3' },
  ])
})

test('each entry is judged by what SQS says of it, although it answers 200', async () => {
  const { publish } = setUp(() => ({
    Successful: [{ Id: '0' }],
    Failed: [
      { Id: '1', SenderFault: true, Code: 'InvalidMessageContents' },
      { Id: '2', SenderFault: false, Code: 'InternalError' },
      { Id: '4', SenderFault: true, Code: 'KMS.AccessDeniedException' },
    ],
  }))
  expect(
    await publish(
      ['1', '2', '3', '4', '5'].map((body) => outgoing(body)),
      signal,
    ),
  ).toEqual([
    undefined,
    { refused: expect.objectContaining({ message: expect.stringContaining('InvalidMessage') }) },
    { unknown: expect.objectContaining({ message: expect.stringContaining('InternalError') }) },
    { unknown: expect.objectContaining({ message: expect.stringContaining('no answer') }) },
    { down: expect.objectContaining({ message: expect.stringContaining('KMS') }) },
  ])
})

test('of a request that is too long, the entries are sent alone', async () => {
  const { publish, sent } = setUp((entries) => {
    const isLarge = entries.some(({ MessageBody }) => MessageBody === 'large')
    if (entries.length > 1 || isLarge) {
      throw Object.assign(new Error('too long'), { name: 'BatchRequestTooLong' })
    }
    return taken(entries)
  })
  const answers = await publish([outgoing('1'), outgoing('large')], signal)
  expect(answers).toEqual([undefined, { refused: expect.any(Error) }])
  expect(sent).toHaveLength(3)
})

test('a message keeps the content type that its handler has given', async () => {
  const { publish, sent } = setUp()
  const contentType = 'text/plain'
  await publish([outgoing('a', { contentType, headers: { 'Content-Type': contentType } })], signal)
  expect(sent[0]?.[0]?.MessageAttributes).toMatchObject({ 'Content-Type': text(contentType) })
})

test('what SQS cannot carry is refused without a call', async () => {
  const { publish, sent } = setUp()
  const many = Object.fromEntries(Array.from({ length: 7 }, (_, n) => [`h${n}`, 'v']))
  const messages = [
    outgoing(Uint8Array.of(255)),
    outgoing('\u0000'),
    outgoing(''),
    outgoing('1', { headers: many }),
  ]
  expect(await publish(messages, signal)).toEqual(
    messages.map(() => ({ refused: expect.any(Error) })),
  )
  expect(sent).toEqual([])
})
