// @module-tag nightly

import { FatalError } from '@onceward/core'
import { rabbitmq, skipped, until } from '@onceward/testing'
import { erlang, guardOf, memoryLimit } from '@onceward/testing/adapter'
import { connect } from 'amqplib'
import { expect, test } from 'vitest'
import { Broker } from './fixtures/broker.ts'
import { consumeAmqp } from './index.ts'

const DEAD = 10
const keysOf = (name: string, count: number): string[] =>
  Array.from({ length: count }, (_, n) => `${name}-${n}`)

// Red when a dead letter that is being published keeps other messages from running.
test.skipIf(skipped('rabbitmq'))(
  'a memory alarm, which blocks every publisher, stops no other message, and dead letters go out when it is over',
  async () => {
    await using server = await rabbitmq({ native: true })
    const evaluate = erlang(server)
    if (evaluate === undefined) throw new Error('expected a node of our own')
    await using broker = await Broker.connect(server.connection.url)
    const [queue, dead] = [await broker.create(), await broker.create()]
    const gate = Promise.withResolvers<void>()
    const effects: string[] = []
    const failures: string[] = []
    const guard = guardOf(async ({ key }) => {
      await gate.promise
      if (key.startsWith('dead')) {
        failures.push(key)
        throw new FatalError('no such order')
      }
      effects.push(key)
    })
    await broker.send(queue, [...keysOf('dead', DEAD), ...keysOf('ok', 50)])
    const open = () => connect(server.connection.url)
    await using consumption = await consumeAmqp(open, guard, {
      queue,
      prefetch: 40,
      deadLetter: { queue: dead },
    })
    await evaluate(memoryLimit('1MB'))
    gate.resolve()
    await until(() => effects.length === 50 && failures.length === DEAD, { deadlineMs: 30_000 })
    expect(await broker.ready(dead)).toBe(0)
    await evaluate(memoryLimit('512MB'))

    const ids = new Set<unknown>()
    await until(
      async () => {
        const message = await broker.get(dead)
        if (message !== undefined) ids.add(message.properties.headers?.['x-onceward-event-id'])
        return ids.size === DEAD && consumption.health().inFlight === 0
      },
      { deadlineMs: 90_000 },
    )
    expect(effects.toSorted()).toEqual(keysOf('ok', 50).toSorted())
    expect(failures).toHaveLength(DEAD)
    expect(await broker.ready(queue)).toBe(0)
  },
  200_000,
)
