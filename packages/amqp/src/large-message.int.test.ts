// @module-tag nightly

import { FatalError } from '@onceward/core'
import { skipped, until } from '@onceward/testing'
import { erlang, guardOf } from '@onceward/testing/adapter'
import { describe, expect, test } from 'vitest'
import { useRabbitmq } from './fixtures/use-rabbitmq.ts'
import { consumeAmqp } from './index.ts'

/** RabbitMQ 3 looks for it in its environment, and RabbitMQ 4 among the persistent terms. */
const limit = (bytes: number): string =>
  `ok = application:set_env(rabbit, max_message_size, ${bytes}), ok = persistent_term:put(max_message_size, ${bytes}).`
const MIB = 1_048_576

describe.skipIf(skipped('rabbitmq'))('RabbitMQ with a lowered max_message_size', () => {
  const kit = useRabbitmq()

  // Red when it is sent again and again: each time the server closes the channel of all dead letters.
  test('a dead letter that has become too large is held, says what to raise, and is published once it is raised', async ({
    skip,
  }) => {
    const evaluate = erlang(kit.server)
    if (evaluate === undefined) return skip('the server belongs to the user')
    const queue = await kit.broker.create()
    const dead = await kit.broker.create()
    await kit.broker.send(queue, ['large'])
    const guard = guardOf(() => Promise.reject(new FatalError('no such order')))
    const options = { queue, deadLetter: { queue: dead } }
    await evaluate(limit(8))
    try {
      await using consumption = await consumeAmqp(kit.open, guard, options)
      const told = (): string => JSON.stringify(consumption.health().outages ?? [])
      await until(() => told().includes('larger than configured max size 8'))
      await until(() => told().includes('raise its `max_message_size`'), { deadlineMs: 60_000 })
      expect(consumption.health()).toMatchObject({ state: 'running', inFlight: 1 })
    } finally {
      await evaluate(limit(128 * MIB))
    }
    await using _consumption = await consumeAmqp(kit.open, guard, options)
    await until(async () => (await kit.broker.ready(dead)) === 1, { deadlineMs: 60_000 })
    expect(await kit.broker.ready(queue)).toBe(0)
  }, 120_000)
})
