import { FatalError } from '@onceward/core'
import { until } from '@onceward/testing'
import { guardOf } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { useRabbitmq } from './fixtures/use-rabbitmq.ts'
import { consumeAmqp } from './index.ts'

const kit = useRabbitmq()

// Red when each try to publish runs the handler: its effects outside of Postgres are repeated.
test('a message without an event key runs no second time because its dead letter cannot be published', async () => {
  const { broker } = kit
  const [queue, dead] = [await broker.create(), await broker.create()]
  const said: string[] = []
  const silent = (): void => undefined
  const error = (_: object, text: string): void => void said.push(text)
  let runs = 0
  const guard = guardOf(
    () => {
      runs += 1
      throw new FatalError('no such order')
    },
    {
      ...{ eventKey: () => undefined, onMissingKey: 'unguarded' },
      logger: { debug: silent, info: silent, warn: silent, error },
    },
  )
  const options = { queue, deadLetter: { queue: dead } }
  await using consumption = await consumeAmqp(kit.open, guard, options)
  await broker.channel.deleteQueue(dead)
  await broker.send(queue, ['bad'])
  const text = 'a dead letter could not be published; it will be tried again'
  await until(() => said.includes(text))
  await broker.channel.assertQueue(dead, { durable: true })
  await until(async () => (await broker.ready(dead)) === 1, { deadlineMs: 60_000 })
  await until(() => consumption.health().inFlight === 0)
  expect(runs).toBe(1)
}, 120_000)
