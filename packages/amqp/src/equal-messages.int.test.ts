import { InvalidPayloadError } from '@onceward/core'
import { until } from '@onceward/testing'
import { guardOf } from '@onceward/testing/adapter'
import type { GetMessage, Options } from 'amqplib'
import { expect, test } from 'vitest'
import { useRabbitmq } from './fixtures/use-rabbitmq.ts'
import { consumeAmqp } from './index.ts'

const kit = useRabbitmq()

// Red when only body and headers tell refused messages apart: the first letter counts as that of all of them.
test('refused messages without an id that differ in routing key or properties alone have a dead letter each', async () => {
  const { broker } = kit
  const [queue, dead] = [await broker.create(), await broker.create()]
  const shop = `${queue}-shop`
  await broker.channel.assertExchange(shop, 'topic')
  await broker.channel.bindQueue(queue, shop, 'orders.#')
  const sent: readonly (readonly [routingKey: string, options: Options.Publish])[] = [
    ['orders.placed', { type: 'order' }],
    ['orders.cancelled', { type: 'order' }],
    ['orders.cancelled', { type: 'refund' }],
    ['orders.cancelled', { type: 'refund', correlationId: 'c-1' }],
    ['orders.cancelled', { type: 'refund', headers: { lines: [1] } }],
    ['orders.cancelled', { type: 'refund', headers: { lines: [2] } }],
  ]
  // No message has a key: each is refused.
  let refused = 0
  const observe = (): void => {
    refused += 1
  }
  const guard = guardOf(() => undefined, { observe })
  const options = { queue, deadLetter: { queue: dead } }
  await using consumption = await consumeAmqp(kit.open, guard, options)
  for (const [routingKey, properties] of sent) {
    broker.channel.publish(shop, routingKey, Buffer.from('{}'), properties)
  }
  await broker.channel.waitForConfirms()
  await until(() => refused >= sent.length && consumption.health().inFlight === 0)

  const deadLetters: GetMessage[] = []
  for (let count = await broker.ready(dead); count > 0; count -= 1) {
    deadLetters.push((await broker.get(dead)) as GetMessage)
  }
  const told = deadLetters.map(({ properties: { headers = {}, type, correlationId } }) =>
    [headers['x-onceward-routing-key'], type, correlationId, headers['lines']]
      .map(String)
      .join(' '),
  )
  expect(told.toSorted()).toEqual([
    'orders.cancelled order undefined undefined',
    'orders.cancelled refund c-1 undefined',
    'orders.cancelled refund undefined 1',
    'orders.cancelled refund undefined 2',
    'orders.cancelled refund undefined undefined',
    'orders.placed order undefined undefined',
  ])
})

const EQUAL = 50

// Red when equal messages share a count and a dead letter: ten failed reads of all of them spent the attempts of each,
// one was published and 49 were acked and nowhere.
test('equal messages without an id count their failed reads each: all run when the registry is back', async () => {
  const { broker } = kit
  const [queue, dead] = [await broker.create(), await broker.create()]
  const backAtMs = Date.now() + 1_500
  let ran = 0
  const guard = guardOf(
    () => {
      ran += 1
    },
    {
      decode: () => {
        if (Date.now() < backAtMs) throw new Error('the registry is down')
        return {}
      },
      onMissingKey: 'unguarded',
      retry: { baseMs: 500 },
    },
  )
  const options = { queue, deadLetter: { queue: dead } }
  for (let count = 0; count < EQUAL; count++) broker.channel.sendToQueue(queue, Buffer.from('{}'))
  await broker.channel.waitForConfirms()
  await using consumption = await consumeAmqp(kit.open, guard, options)
  await until(() => ran === EQUAL && consumption.health().inFlight === 0)
  expect(await broker.ready(dead)).toBe(0)
})

test('equal messages without an id that are refused have a dead letter each', async () => {
  const { broker } = kit
  const [queue, dead] = [await broker.create(), await broker.create()]
  let refused = 0
  const guard = guardOf(() => undefined, {
    decode: () => {
      throw new InvalidPayloadError('never')
    },
    observe: () => {
      refused += 1
    },
  })
  for (let count = 0; count < EQUAL; count++) broker.channel.sendToQueue(queue, Buffer.from('{}'))
  await broker.channel.waitForConfirms()
  const options = { queue, deadLetter: { queue: dead } }
  await using consumption = await consumeAmqp(kit.open, guard, options)
  await until(() => refused >= EQUAL && consumption.health().inFlight === 0)
  expect(await broker.ready(dead)).toBe(EQUAL)
})
