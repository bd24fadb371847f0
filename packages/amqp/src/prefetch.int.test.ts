import { setTimeout as wait } from 'node:timers/promises'
import { type Runtime, systemRuntime } from '@onceward/core/ports'
import { skipped, until } from '@onceward/testing'
import { erlang, guardOf } from '@onceward/testing/adapter'
import { type Channel, type ConsumeMessage, connect } from 'amqplib'
import { beforeAll, describe, expect, test } from 'vitest'
import type { QueueType } from './fixtures/broker.ts'
import { useRabbitmq } from './fixtures/use-rabbitmq.ts'
import { type Consumption, consumeAmqp } from './index.ts'

const TYPES: readonly QueueType[] = ['classic', 'quorum']
const keysOf = (prefix: string, count: number): string[] =>
  Array.from({ length: count }, (_, n) => `${prefix}-${n}`)

describe.skipIf(skipped('rabbitmq'))('the prefetch on a real RabbitMQ', () => {
  const kit = useRabbitmq()

  // Red when a second's worth of quick messages may be in hand: one consumer has all twelve slow ones.
  test.each(TYPES)(
    'trap B6: a consumer of a %s queue whose messages become slow leaves half of them to its neighbour',
    async (type) => {
      const queue = await kit.broker.create(type)
      const slow: [string[], string[]] = [[], []]
      let quick = 0
      const guardFor = (mine: string[]) =>
        guardOf(
          async ({ key }) => {
            if (key.startsWith('quick')) quick += 1
            else mine.push(key)
            if (key.startsWith('slow')) await wait(300)
          },
          { concurrency: 1 },
        )
      await using first = await consumeAmqp(kit.open, guardFor(slow[0]), { queue })
      await kit.broker.send(queue, keysOf('quick', 300))
      await until(() => quick === 300)
      await kit.broker.send(queue, keysOf('slow', 12))
      await until(() => slow[0].length === 1)
      expect(first.health().inFlight).toBeLessThanOrEqual(2)
      await using second = await consumeAmqp(kit.open, guardFor(slow[1]), { queue })
      await until(() => slow[0].length + slow[1].length === 12)
      expect(new Set(slow.flat()).size).toBe(12)
      for (const { length } of slow) expect(length).toBeGreaterThanOrEqual(4)
      await until(() => first.health().inFlight + second.health().inFlight === 0)
    },
  )

  // Red when a consumer begins anew for another prefetch: the messages in hand then count twice, and slots are idle.
  test.each(TYPES)(
    'trap B6: no slot is idle while the %s queue has messages, however the pace changes, and few messages are held',
    async (type) => {
      const queue = await kit.broker.create(type)
      const running = new Set<string>()
      let [ended, most, gate] = [0, 0, Promise.withResolvers<void>()]
      let consumption: Consumption | undefined
      const guard = guardOf(
        async ({ key }) => {
          running.add(key)
          most = Math.max(most, consumption?.health().inFlight ?? 0)
          if (key.startsWith('held')) await gate.promise
          running.delete(key)
          ended += 1
        },
        { concurrency: 4 },
      )
      consumption = await consumeAmqp(kit.open, guard, { queue })
      await using _consumption = consumption
      let sent = 0
      for (let round = 0; round < 12; round += 1) {
        const quick = keysOf(`quick-${round}`, [0, 3, 40, 200][round % 4] ?? 0)
        const held = keysOf(`held-${round}`, 12)
        await kit.broker.send(queue, [...quick, ...held])
        sent += quick.length + held.length
        const since = performance.now()
        await until(() => running.size === 4)
        // Every third round is slow.
        if (round % 3 === 0) await until(() => performance.now() - since > 600)
        gate.resolve()
        await until(() => ended === sent)
        gate = Promise.withResolvers()
      }
      expect(most).toBeLessThanOrEqual(6)
    },
  )
})

/** Minutes are three seconds for the guard, and for the server that is told so. */
const TIMES = 20
const quickRuntime: Runtime = {
  ...systemRuntime,
  monotonic: () => systemRuntime.monotonic() * TIMES,
  setTimer: (callback, delayMs, options) =>
    systemRuntime.setTimer(callback, delayMs / TIMES, options),
}
const CONSUMER_TIMEOUT_MS = 180_000

describe.skipIf(skipped('rabbitmq'))('the consumer timeout of a real RabbitMQ', () => {
  const kit = useRabbitmq()
  beforeAll(async () => {
    const set = (name: string, ms: number) =>
      erlang(kit.server)?.(`application:set_env(rabbit, ${name}, ${ms / TIMES}).`)
    await set('consumer_timeout', CONSUMER_TIMEOUT_MS)
    await set('channel_tick_interval', 60_000)
  }, 200_000)

  /** For each settled message, how long it was in hand on the guard's clock. */
  function connecting(agesMs: number[], closes: unknown[]) {
    return async () => {
      const connection = await connect(kit.url)
      const { createChannel } = connection
      connection.createChannel = async () => {
        const channel = await createChannel.call(connection)
        // Others are the start's, which asks what kind of queue it is.
        channel.on('error', (error) => {
          if (error.message.includes('acknowledgement')) closes.push(error)
        })
        return timed(channel, agesMs)
      }
      return connection
    }
  }

  function timed(channel: Channel, agesMs: number[]): Channel {
    const { consume, ack, nack } = channel
    const cameAtMs = new Map<number, number>()
    const settled = (message: ConsumeMessage): void => {
      const cameMs = cameAtMs.get(message.fields.deliveryTag)
      if (cameMs !== undefined) agesMs.push(quickRuntime.monotonic() - cameMs)
    }
    channel.consume = (queue, onMessage, options) =>
      consume.call(
        channel,
        queue,
        (message) => {
          if (message !== null) cameAtMs.set(message.fields.deliveryTag, quickRuntime.monotonic())
          onMessage(message)
        },
        options,
      )
    channel.ack = (message, ...rest) => {
      settled(message as ConsumeMessage)
      ack.call(channel, message, ...rest)
    }
    channel.nack = (message, ...rest) => {
      settled(message as ConsumeMessage)
      nack.call(channel, message, ...rest)
    }
    return channel
  }

  // Red when only the running message is watched: the server closes the channel after the third one.
  test.concurrent.each(TYPES)(
    'trap A6: a large prefetch of a %s queue beside one slow handler never meets the consumer timeout',
    async (type) => {
      const queue = await kit.broker.create(type)
      const [agesMs, closes, done]: [number[], unknown[], string[]] = [[], [], []]
      const guard = guardOf(
        async ({ key }) => {
          await wait(45_000 / TIMES)
          done.push(key)
        },
        { concurrency: 1, deadlineMs: 58_000, runtime: quickRuntime },
      )
      await kit.broker.send(queue, keysOf('k', 7))
      const options = { queue, prefetch: 20, consumerTimeoutMs: CONSUMER_TIMEOUT_MS }
      await using consumption = await consumeAmqp(connecting(agesMs, closes), guard, options)
      await until(() => done.length === 7, { deadlineMs: 60_000 })
      await until(() => consumption.health().inFlight === 0)
      expect([closes, done.toSorted()]).toEqual([[], keysOf('k', 7)])
      expect(agesMs.length).toBeGreaterThan(7)
      expect(Math.max(...agesMs)).toBeLessThan(0.8 * CONSUMER_TIMEOUT_MS)
    },
    90_000,
  )

  // Red when only the size of a batch counts: it is larger than the prefetch, so each call waits for the linger time.
  test('a guard with a transaction per event does not linger while the broker sends it no more', async () => {
    const queue = await kit.broker.create()
    const done: string[] = []
    const guard = guardOf(({ key }) => void done.push(key), { concurrency: 2 })
    await kit.broker.send(queue, keysOf('k', 20))
    await using _ = await consumeAmqp(kit.open, guard, { queue, batch: { lingerMs: 60_000 } })
    // The last one may linger: the broker could bring another one.
    await until(() => done.length >= 18)
  })
})
