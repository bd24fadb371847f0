import type { DeadLetter } from '@onceward/core'
import { deadLetterOf } from '@onceward/testing/adapter'
import type { ConsumeMessage } from 'amqplib'
import { expect, test } from 'vitest'
import { createPublisher, deadLetterMessage } from './dead-letter.ts'
import { fromAmqpMessage } from './delivery.ts'
import { message } from './fixtures/recording-channel.ts'

const target = { queue: 'orders.dead' }

function letterOf(properties: Partial<ConsumeMessage['properties']> = {}): DeadLetter {
  return deadLetterOf(fromAmqpMessage(message('a', {}, properties), 'orders'))
}

test('a dead letter keeps content, properties and headers, and gets headers that give the reason', () => {
  const letter = letterOf({ contentType: 'application/json', headers: { trace: 't-1' } })
  expect(deadLetterMessage(letter, target)).toMatchObject({
    content: Buffer.from('{"key":"a"}'),
    options: {
      contentType: 'application/json',
      headers: {
        trace: 't-1',
        'x-onceward-reason': 'fatal',
        'x-onceward-consumer': 'billing',
        'x-onceward-error': 'no such order',
      },
    },
  })
})

test('the reason of an earlier dead letter is replaced', () => {
  const headers = { 'X-Onceward-Key': 'old', 'x-onceward-reason': 'attempts-spent' }
  const { options } = deadLetterMessage({ ...letterOf({ headers }), key: undefined }, target)
  expect(options.headers).toHaveProperty('x-onceward-reason', 'fatal')
  expect(options.headers).not.toHaveProperty('X-Onceward-Key')
})

test('a stored delivery without a readable envelope is sent with its text headers', () => {
  const { raw: _, envelope: __, ...delivery } = letterOf({ messageId: 'm-1' }).delivery
  const stored = { ...delivery, body: new Uint8Array(Buffer.from('{}')) }
  expect(deadLetterMessage({ ...letterOf(), delivery: stored }, target)).toMatchObject({
    content: Buffer.from('{}'),
    options: {
      messageId: 'm-1',
      headers: { 'idempotency-key': 'a', 'x-onceward-reason': 'fatal' },
    },
  })
})

test('a dead letter goes to the queue or through the exchange, and the error of an unroutable one says what to declare', async () => {
  const published: object[] = []
  const publish = async (outgoing: object): Promise<void> => void published.push(outgoing)
  await createPublisher({ publish }, target, true)(letterOf())
  await createPublisher(
    { publish },
    { exchange: 'shop.dead', routingKey: 'orders' },
    true,
  )(letterOf())
  expect(published).toMatchObject([
    {
      exchange: '',
      routingKey: 'orders.dead',
      remedy: expect.stringMatching(/declare the queue .*'orders\.dead'/),
    },
    {
      exchange: 'shop.dead',
      routingKey: 'orders',
      remedy: expect.stringMatching(/declare the exchange .*'shop\.dead'/),
    },
  ])
})

const LATER = new Date('2026-11-22T12:00:00Z')

test('each try to publish a dead letter names the same one, and a replayed event that is dead again another', async () => {
  const identity = async (letter: DeadLetter, hasInbox: boolean): Promise<unknown> => {
    const seen: unknown[] = []
    const publish = async ({ of }: { readonly of: unknown }): Promise<void> => void seen.push(of)
    await createPublisher({ publish }, target, hasInbox)(letter)
    return seen[0]
  }
  for (const kind of ['event', 'refused'] as const) {
    const one = { ...letterOf(), ref: { kind, id: 'r-1' } } as DeadLetter
    const { raw: _, ...stored } = one.delivery
    // In hand and from the table, where the message is gone.
    expect(await identity({ ...one, delivery: stored }, true)).toBe(await identity(one, true))
    expect(await identity({ ...one, lastFailedAt: LATER }, true)).not.toBe(
      await identity(one, true),
    )
    // Without an inbox each try has a reference of its own.
    const again = { ...one, ref: { kind, id: 'r-2' }, lastFailedAt: LATER } as DeadLetter
    expect(await identity(again, false)).toBe(await identity(one, false))
    expect(await identity(letterOf(), false)).not.toBe(await identity(one, false))
  }
})
