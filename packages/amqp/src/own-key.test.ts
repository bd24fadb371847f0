import type { ConsumeMessage } from 'amqplib'
import { expect, test } from 'vitest'
import type { Outgoing } from './clients/publisher.ts'
import { sentByOwnKey } from './dead-letter.ts'
import { fromAmqpMessage } from './delivery.ts'
import { PublishError } from './errors.ts'
import { message } from './fixtures/recording-channel.ts'

const EXCHANGE = 'orders.dlx'

/** A message of the exchange 'shop' with the routing key 'order.new', as it comes back from a delay queue. */
const deferred = message(
  'a',
  { routingKey: 'orders' },
  {
    contentType: 'application/json',
    headers: {
      trace: 't-1',
      'x-onceward-deferrals': 1,
      'x-onceward-exchange': 'shop',
      'x-onceward-routing-key': 'order.new',
    },
  },
)

async function send(
  received: ConsumeMessage,
  { exchange = EXCHANGE, error }: { readonly exchange?: string | false; readonly error?: unknown },
) {
  const published: Outgoing[] = []
  const publish = async (outgoing: Outgoing): Promise<void> => {
    published.push(outgoing)
    if (error !== undefined) throw error
  }
  const inHand = { message: received, delivery: fromAmqpMessage(received, 'orders') }
  const target = exchange === false ? undefined : exchange
  return { isSent: await sentByOwnKey({ publish }, target, inHand), published }
}

test('a dead message that was deferred goes to the dead-letter exchange under the key of its publisher', async () => {
  const { isSent, published } = await send(deferred, {})
  expect(isSent).toBe(true)
  expect(published).toMatchObject([
    {
      kind: 'dead-letter',
      exchange: EXCHANGE,
      routingKey: 'order.new',
      content: Buffer.from('{"key":"a"}'),
      options: { contentType: 'application/json', headers: { trace: 't-1' } },
      remedy: "bind a queue to the exchange 'orders.dlx'",
    },
  ])
  // Another try for the same message waits for its confirm.
  expect(published[0]?.of).toBe(deferred)
})

test.each([
  ['was not deferred and still has its own key', message('a'), EXCHANGE],
  ['is in a queue whose dead-letter exchange does not route by its own key', deferred, false],
] as const)('a dead message is rejected if it %s', async (_, received, exchange) => {
  expect(await send(received, { exchange })).toEqual({ isSent: false, published: [] })
})

const unroutable = PublishError.unroutable(
  { exchange: EXCHANGE, routingKey: 'order.new', remedy: '' },
  'NO_ROUTE',
)
const denied = Object.assign(new Error('ACCESS_REFUSED'), { code: 403 })
const tooLarge = new PublishError('refused', { cause: new RangeError('headers too large') })

test.each([
  ['no queue is bound by its own key', unroutable],
  ['the user may not write to the exchange', denied],
  ['the client cannot write its headers', tooLarge],
])('a dead message is rejected if %s', async (_, error) => {
  const { isSent, published } = await send(deferred, { error })
  expect(isSent).toBe(false)
  expect(published).toHaveLength(1)
})

// Rejected, it might be dropped; the caller keeps it in hand and tries again.
test.each([
  ['has not confirmed', new PublishError('nacked')],
  ['is gone', Object.assign(new Error('connection closed'), { code: 320 })],
])('a dead message that the broker %s is neither rejected nor acked', async (_, error) => {
  await expect(send(deferred, { error })).rejects.toBe(error)
})
