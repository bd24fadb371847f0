import type { MessageAttributeValue, SendMessageCommandInput } from '@aws-sdk/client-sqs'
import type { Delivery } from '@onceward/core'
import type { DeadLetter } from '@onceward/core/ports'
import { deadLetterOf } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { createPublisher, deadLetterMessage } from './dead-letter.ts'
import { toDelivery } from './delivery.ts'

const queueUrl = 'https://sqs.eu-west-1.amazonaws.com/000000000000/orders'
const deadUrl = `${queueUrl}-dead`
const text = (StringValue: string) => ({ DataType: 'String', StringValue })

function delivered(
  MessageAttributes: Record<string, MessageAttributeValue>,
  system: object = {},
  from = queueUrl,
): Delivery {
  const Attributes = { ApproximateReceiveCount: '1', ...system }
  return toDelivery({ MessageId: 'm-1', Body: '{"ä":1}', Attributes, MessageAttributes }, from)
}

test('a dead letter keeps body and attributes, and gets attributes that give the reason', () => {
  const binary = { DataType: 'Binary', BinaryValue: new Uint8Array([255]) }
  const delivery = delivered({ 'Idempotency-Key': text('order-1'), trace: binary })
  const message = deadLetterMessage(deadLetterOf(delivery), deadUrl)
  expect(message).toMatchObject({ QueueUrl: deadUrl, MessageBody: '{"ä":1}' })
  expect(message.MessageAttributes).toMatchObject({
    'Idempotency-Key': text('order-1'),
    trace: binary,
    'x-onceward-reason': text('fatal'),
    'x-onceward-consumer': text('billing'),
    'x-onceward-error': text('no such order'),
    'x-onceward-origin': text(`${queueUrl}/m-1`),
  })
  expect(Object.keys(message.MessageAttributes ?? {})).toHaveLength(10)
  expect(message).not.toHaveProperty('MessageGroupId')
})

test('a message with ten attributes keeps all of them, because its key may be among them', () => {
  const names = Array.from({ length: 10 }, (_, index) => `a${index}`)
  const delivery = delivered(Object.fromEntries(names.map((name) => [name, text(name)])))
  const message = deadLetterMessage(deadLetterOf(delivery), deadUrl)
  expect(Object.keys(message.MessageAttributes ?? {})).toEqual(names)
})

test('the mark of an item has the last room, before the reason, and not one that the producer wrote', () => {
  const names = Array.from({ length: 9 }, (_, index) => `a${index}`)
  const own = Object.fromEntries([...names, 'X-Onceward-Item'].map((name) => [name, text(name)]))
  const letter = { ...deadLetterOf(delivered(own)), itemMark: '1.mark' }
  const { MessageAttributes } = deadLetterMessage(letter, deadUrl)
  expect(Object.keys(MessageAttributes ?? {})).toEqual([...names, 'x-onceward-item'])
  expect(MessageAttributes?.['x-onceward-item']).toEqual(text('1.mark'))
})

test('the reason of an earlier dead letter is replaced', () => {
  const earlier = { 'x-onceward-reason': text('attempts-spent'), 'X-Onceward-Key': text('old') }
  const dead = deadLetterOf(delivered({ ...earlier, a: text('1') }), { key: undefined })
  const { MessageAttributes } = deadLetterMessage(dead, deadUrl)
  expect(MessageAttributes?.['x-onceward-reason']).toEqual(text('fatal'))
  expect(MessageAttributes).not.toHaveProperty('X-Onceward-Key')
})

test('a dead letter in a FIFO queue has the group and the id of its message', () => {
  const from = `${queueUrl}.fifo`
  const delivery = delivered({}, { MessageGroupId: 'g-1' }, from)
  expect(deadLetterMessage(deadLetterOf(delivery), `${deadUrl}.fifo`)).toMatchObject({
    MessageGroupId: 'g-1',
    MessageDeduplicationId: 'm-1',
  })
  expect(deadLetterMessage(deadLetterOf(delivered({})), `${deadUrl}.fifo`)).toHaveProperty(
    'MessageGroupId',
    'billing',
  )
})

test('a stored delivery without a readable envelope is sent with its text headers', () => {
  const delivery: Delivery = {
    body: Buffer.from('{}'),
    headers: { 'idempotency-key': 'order-1', empty: '', absent: undefined },
    source: { broker: 'sqs', queue: queueUrl },
  }
  const { MessageAttributes } = deadLetterMessage(deadLetterOf(delivery), deadUrl)
  expect(MessageAttributes).toHaveProperty('idempotency-key', text('order-1'))
  expect(MessageAttributes).not.toHaveProperty('empty')
  expect(MessageAttributes).not.toHaveProperty('absent')
})

test('characters of an error that SQS refuses are replaced', () => {
  const error = 'bad \u0000 byte \u{FFFF} and \u{1F600}'
  const { MessageAttributes } = deadLetterMessage(deadLetterOf(delivered({}), { error }), deadUrl)
  expect(MessageAttributes?.['x-onceward-error']).toEqual(text('bad � byte � and \u{1F600}'))
})

const tooLarge = Object.assign(new Error('too long'), { name: 'InvalidParameterValue' })
const tooLong = Object.assign(new Error('too long'), { name: 'MessageTooLong' })

/** A queue that accepts the message only without its reason; returns the number of attributes of each try. */
async function tries(dead: DeadLetter, refusal: Error): Promise<readonly number[]> {
  const sent: SendMessageCommandInput[] = []
  const send = async (input: SendMessageCommandInput): Promise<void> => {
    sent.push(input)
    if (input.MessageAttributes?.['x-onceward-reason'] !== undefined) throw refusal
  }
  await createPublisher({ send }, deadUrl)(dead)
  return sent.map(({ MessageAttributes }) => Object.keys(MessageAttributes ?? {}).length)
}

// Red when only large ones are sent again: a queue may have a limit of its own, down to 1 KiB.
test.each([tooLarge, tooLong])(
  'a dead letter with no room for its reason is sent without it: $name',
  async (refusal) => {
    for (const bytes of [900, 262_000]) {
      const full = { ...delivered({ a: text('1') }), body: Buffer.alloc(bytes, 'x') }
      expect(await tries(deadLetterOf(full), refusal)).toEqual([10, 1])
    }
  },
)

test('an error that may mean something else is tried again without the reason only from 200 KiB on, attributes included', async () => {
  const small = delivered({ a: text('1') })
  const { MessageAttributes } = deadLetterMessage(deadLetterOf(small), deadUrl)
  const room = 200 * 1_024 - Buffer.byteLength(JSON.stringify(MessageAttributes))
  const ofBytes = (bytes: number) => deadLetterOf({ ...small, body: Buffer.alloc(bytes, 'x') })
  const odd = Object.assign(new Error('odd'), { name: 'Odd' })
  expect(await tries(ofBytes(room), odd)).toEqual([10, 1])
  await expect(tries(ofBytes(room - 1), odd)).rejects.toBe(odd)
})

test('any other refusal is thrown, and the message stays in the source queue', async () => {
  let sends = 0
  const failing = (error: Error) => async (): Promise<void> => {
    sends += 1
    throw error
  }
  const small = deadLetterOf(delivered({}))
  const odd = Object.assign(new Error('odd'), { name: 'Odd' })
  await expect(createPublisher({ send: failing(odd) }, deadUrl)(small)).rejects.toBe(odd)
  const gone = Object.assign(new Error('gone'), { name: 'QueueDoesNotExist' })
  const large = deadLetterOf({ ...delivered({}), body: Buffer.alloc(262_000, 'x') })
  await expect(createPublisher({ send: failing(gone) }, deadUrl)(large)).rejects.toBe(gone)
  expect(sends).toBe(2)
})
