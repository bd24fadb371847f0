import { FatalError } from '@onceward/core'
import { until } from '@onceward/testing'
import { guardOf } from '@onceward/testing/adapter'
import type { GetMessage } from 'amqplib'
import { expect, test } from 'vitest'
import { useRabbitmq } from './fixtures/use-rabbitmq.ts'
import { consumeAmqp } from './index.ts'

const kit = useRabbitmq()

/** Runs one message that is dead at once, and one that is dead after a stay in a delay queue. */
async function dlx(boundBy: (queue: string) => string): Promise<readonly GetMessage[]> {
  const { broker } = kit
  const dead = await broker.create()
  const [exchange, shop] = [`${dead}-exchange`, `${dead}-shop`]
  for (const name of [exchange, shop]) await broker.channel.assertExchange(name, 'topic')
  const queue = await broker.create('classic', { 'x-dead-letter-exchange': exchange })
  await broker.channel.bindQueue(dead, exchange, boundBy(queue))
  await broker.channel.bindQueue(queue, shop, 'orders.#')
  const guard = guardOf(
    ({ key, attempt }) => {
      if (key === 'later' && attempt === 1) throw new Error('not yet')
      throw new FatalError('no such order')
    },
    { retry: { baseMs: 100, maxMs: 100 } },
  )
  const options = { queue, deadLetter: 'dlx', holdMs: 0, retryLevelsMs: [100] } as const
  await using consumption = await consumeAmqp(kit.open, guard, options)
  for (const key of ['now', 'later']) {
    const headers = { 'Idempotency-Key': key, mine: 'kept' }
    broker.channel.publish(shop, `orders.${key}`, Buffer.from('{}'), { headers, messageId: key })
  }
  await broker.channel.waitForConfirms()
  const deadLetters: GetMessage[] = []
  await until(async () => {
    const letter = await broker.get(dead)
    if (letter !== undefined) deadLetters.push(letter)
    return deadLetters.some(({ properties }) => properties.messageId === 'later')
  })
  await until(() => consumption.health().inFlight === 0)
  expect(await broker.ready(queue)).toBe(0)
  return deadLetters
}

// Red when a deferred message is rejected: its key is the name of its queue then, and the broker drops it.
test("'dlx' routes a message that was deferred by its own routing key", async () => {
  const deadLetters = await dlx(() => 'orders.*')
  expect(deadLetters.map(({ fields }) => fields.routingKey)).toEqual(['orders.now', 'orders.later'])
  const [now, later] = deadLetters.map(({ properties }) => properties)
  expect(now?.headers?.['x-death']?.[0]?.reason).toBe('rejected')
  expect(later?.headers).toMatchObject({ 'Idempotency-Key': 'later', mine: 'kept' })
  expect(later?.headers).not.toHaveProperty('x-onceward-deferrals')
})

test("'dlx' rejects a message that was deferred if only the name of its queue is bound", async () => {
  const deadLetters = await dlx((queue) => queue)
  expect(deadLetters.map(({ properties }) => properties.messageId)).toEqual(['later'])
  expect(deadLetters[0]?.properties.headers?.['x-death']?.[0]?.reason).toBe('rejected')
})
