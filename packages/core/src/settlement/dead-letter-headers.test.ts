import { expect, test } from 'vitest'
import type { EventId } from '../model/brands.ts'
import type { DeadLetter } from '../model/dead-letter.ts'
import { deadLetterHeaders, isDeadLetterHeader } from './dead-letter-headers.ts'

const letter: DeadLetter = {
  ref: { kind: 'event', id: '00000000-0000-0000-0000-000000000001' as EventId },
  consumer: 'billing',
  key: 'order-1',
  reason: 'attempts-spent',
  error: 'card declined',
  attempts: 5,
  firstFailedAt: new Date(0),
  lastFailedAt: new Date(60_000),
  delivery: { body: Buffer.from('{}'), headers: {}, source: { broker: 'sqs', queue: 'orders' } },
}

test('the headers contain reason, id, attempts, times and origin of a dead letter', () => {
  expect(deadLetterHeaders(letter)).toEqual({
    'x-onceward-reason': 'attempts-spent',
    'x-onceward-event-id': '00000000-0000-0000-0000-000000000001',
    'x-onceward-consumer': 'billing',
    'x-onceward-error': 'card declined',
    'x-onceward-attempts': '5',
    'x-onceward-key': 'order-1',
    'x-onceward-origin': 'orders',
    'x-onceward-last-at': '1970-01-01T00:01:00.000Z',
    'x-onceward-first-at': '1970-01-01T00:00:00.000Z',
  })
})

test('the headers omit unknown values and limit the error to well-formed text', () => {
  const headers = deadLetterHeaders({ ...letter, key: undefined, error: `x${'😀'.repeat(2_000)}` })
  expect(headers).not.toHaveProperty('x-onceward-key')
  expect(headers['x-onceward-error']?.length).toBe(1_024)
  expect(headers['x-onceward-error']?.isWellFormed()).toBe(true)
  expect(deadLetterHeaders({ ...letter, error: '' })).not.toHaveProperty('x-onceward-error')
})

test('the origin is the queue and the position, if the message has one', () => {
  const source = { broker: 'kafka', queue: 'orders', position: '2/41' }
  const delivery = { ...letter.delivery, source }
  expect(deadLetterHeaders({ ...letter, delivery })['x-onceward-origin']).toBe('orders/2/41')
})

test('a header of an earlier dead letter is known in whatever case it is written', () => {
  expect(isDeadLetterHeader('x-onceward-reason')).toBe(true)
  expect(isDeadLetterHeader('X-Onceward-Key')).toBe(true)
  expect(isDeadLetterHeader('x-onceward-other')).toBe(false)
  expect(isDeadLetterHeader('constructor')).toBe(false)
})
