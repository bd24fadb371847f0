import type { DeadLetter } from '@onceward/core/ports'
import { deadLetterOf } from '@onceward/testing/adapter'
import type { ConsumeMessage } from 'amqplib'
import { expect, test } from 'vitest'
import type { Outgoing } from './clients/publisher.ts'
import { createPublisher, deadLetterMessage, originalMessage } from './dead-letter.ts'
import { fromAmqpMessage } from './delivery.ts'
import { PublishError } from './errors.ts'
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

/** A publisher that fails with these errors, one for each try, and then publishes. */
function failing(...errors: readonly unknown[]) {
  const tries: Outgoing[] = []
  const publish = async (outgoing: Outgoing): Promise<void> => {
    tries.push(outgoing)
    if (tries.length <= errors.length) throw errors[tries.length - 1]
  }
  return { tries, publish }
}

const tooLarge = new RangeError('the headers are too large')
const refused = new PublishError('the client refused to publish', { cause: tooLarge })
const full = { contentType: 'application/json', headers: { trace: 't-1' } }

test('a dead letter whose headers are too large is sent without the reasons, and at last with the reasons alone', async () => {
  const publisher = failing(tooLarge, refused)
  await createPublisher(publisher, target, true)(letterOf(full))
  const reason = 'x-onceward-reason'
  const [reasons, bare, alone] = publisher.tries
  expect(publisher.tries).toHaveLength(3)
  expect(reasons?.options.headers).toMatchObject({ trace: 't-1', [reason]: 'fatal' })
  // The own headers leave no room for the publisher's id either.
  expect(bare).toMatchObject({ isBare: true, options: full })
  expect(bare?.options.headers).toEqual({ trace: 't-1' })
  expect(alone?.options).toMatchObject({
    contentType: 'application/json',
    headers: { [reason]: 'fatal', 'x-onceward-consumer': 'billing' },
  })
  expect(alone?.options.headers).not.toHaveProperty('trace')
  for (const one of [reasons, alone]) expect(one).not.toHaveProperty('isBare')
})

// Otherwise it would count as published, and the message would be acked.
test('a dead letter that is too large in every form is not published', async () => {
  const publisher = failing(tooLarge, refused, refused)
  await expect(createPublisher(publisher, target, true)(letterOf())).rejects.toBe(refused)
  expect(publisher.tries).toHaveLength(3)
})

test('a dead letter that the broker refuses is not published again without its headers', async () => {
  const nacked = new PublishError('nacked')
  const publisher = failing(nacked)
  await expect(createPublisher(publisher, target, true)(letterOf())).rejects.toBe(nacked)
  expect(publisher.tries).toHaveLength(1)
})

test("a message that an operator sends back has its publisher's content, properties and headers", () => {
  const properties = { ...full, messageId: 'm-1', correlationId: 'c-1' }
  const { delivery } = letterOf(properties)
  const { content } = message('a')
  expect(originalMessage(delivery)).toEqual({ content, options: properties })
  // A stored delivery has the body, and the rest of the message in its envelope.
  const { raw: _, ...parts } = delivery
  const stored = { ...parts, body: new Uint8Array(content) }
  expect(originalMessage(stored)).toEqual({ content, options: properties })
  // Without the envelope only the parts of a delivery are left.
  const { envelope: __, ...bare } = stored
  const { correlationId: ___, ...options } = properties
  expect(originalMessage(bare)).toEqual({ content, options })
})
