import type { DeadLetter } from '@onceward/core/ports'
import { deadLetterOf } from '@onceward/testing/adapter'
import type { Message, ProducerRecord, RecordMetadata } from 'kafkajs'
import { expect, test } from 'vitest'
import { createPublisher, deadLetterMessage } from './dead-letter.ts'
import { toDelivery } from './delivery.ts'
import { message, protocolError } from './fixtures/fetch.ts'

function letterOf(
  more: Partial<Message> = {},
  key: Buffer | null = Buffer.from([1, 0xff]),
): DeadLetter {
  const headers = {
    Trace: [Buffer.from('a'), Buffer.from([0xff])],
    'X-Onceward-Reason': Buffer.from('old'),
  }
  const record = {
    topic: 'orders',
    partition: 2,
    message: message(41, key, { headers, ...more } as object),
  }
  const times = { attempts: 3, lastFailedAt: new Date(1_000) }
  return deadLetterOf(toDelivery(record, 'cluster-1'), { key: 'key-a', ...times })
}

test('a dead letter keeps key, value and headers, and gets headers that give the reason', () => {
  const letter = letterOf()
  expect(deadLetterMessage(letter)).toEqual({
    key: Buffer.from([1, 0xff]),
    value: Buffer.from(letter.delivery.body),
    headers: {
      Trace: [Buffer.from('a'), Buffer.from([0xff])],
      'x-onceward-reason': 'fatal',
      'x-onceward-event-id': letter.ref.id,
      'x-onceward-consumer': 'billing',
      'x-onceward-error': 'no such order',
      'x-onceward-attempts': '3',
      'x-onceward-key': 'key-a',
      'x-onceward-origin': 'orders/2/41',
      'x-onceward-last-at': '1970-01-01T00:00:01.000Z',
      'x-onceward-first-at': '1970-01-01T00:00:00.000Z',
    },
  })
})

test('the dead letter of a tombstone is a tombstone, and that of a record without a key has none', () => {
  const letter = letterOf({ value: null }, null)
  expect(deadLetterMessage(letter)).toMatchObject({ key: null, value: null })
  const { raw: _, envelope: __, ...delivery } = letter.delivery
  expect(deadLetterMessage({ ...letter, delivery })).toMatchObject({ key: null, value: null })
  const value = Buffer.alloc(0)
  expect(deadLetterMessage(letterOf({ value }))).toHaveProperty('value', value)
})

test('a dead letter needs all replicas, and one that is too large is sent without its reason', async () => {
  const sent: ProducerRecord[] = []
  const errors: Error[] = [protocolError('MESSAGE_TOO_LARGE')]
  const send = async (record: ProducerRecord): Promise<RecordMetadata[]> => {
    sent.push(record)
    const error = errors.shift()
    if (error !== undefined) throw error
    return [{ topicName: record.topic, partition: 0, errorCode: 0 }]
  }
  await createPublisher({ send }, 'orders.dead')(letterOf())
  expect(sent.map(({ topic, acks }) => [topic, acks])).toEqual([
    ['orders.dead', -1],
    ['orders.dead', -1],
  ])
  expect(sent[0]?.messages).toEqual([deadLetterMessage(letterOf())])
  expect(Object.keys(sent[1]?.messages[0]?.headers ?? {})).toEqual(['Trace'])
  errors.push(protocolError('NOT_ENOUGH_REPLICAS'))
  await expect(createPublisher({ send }, 'orders.dead')(letterOf())).rejects.toThrow(
    'NOT_ENOUGH_REPLICAS',
  )
})

// kafkajs drops a record whose partition the topic does not have, and resolves.
test('a dead letter that kafkajs dropped does not count as published', async () => {
  const publish = createPublisher({ send: async () => [] }, 'orders.dead')
  await expect(publish(letterOf())).rejects.toThrow("kafkajs sent nothing to 'orders.dead'")
})
