// @module-tag nightly

import { skipped } from '@onceward/testing'
import { type Erlang, erlang, memoryLimit } from '@onceward/testing/adapter'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { AmqpQueue, AmqpQueueOptions } from '../../brokers/amqp/queue.ts'
import { startRabbitmq } from '../../brokers/amqp/server.ts'
import type { RunningBroker } from '../../brokers/broker.ts'
import { endsWithEverythingOnce } from '../../support/audit.ts'
import { effectsReach, orders } from '../../support/effects.ts'
import { Testbed } from '../../support/testbed.ts'

const STALLED = { id: 'order-stalled', deed: 'stall' } as const

const TIMEOUT_MS = 3_000
/** The server checks its timeouts once a minute; these settings make it check every half second. */
const TIMEOUTS = `
  application:set_env(rabbit, consumer_timeout, ${TIMEOUT_MS}),
  application:set_env(rabbit, channel_tick_interval, 500).`

describe.skipIf(skipped('rabbitmq'))('RabbitMQ, with memory alarms and consumer timeouts', () => {
  let broker: RunningBroker<AmqpQueue, AmqpQueueOptions>
  let evaluate: Erlang | undefined
  beforeAll(async () => {
    broker = await startRabbitmq({ type: 'quorum' })
    evaluate = erlang(broker.server)
  })
  afterAll(() => broker?.server.stop())

  // Red when a message is acked although its copy was not published, and when the consumer stays blocked.
  test('health reports a memory alarm of the broker; nothing is lost, and the consumer continues afterwards', async ({
    skip,
  }) => {
    if (evaluate === undefined) return skip('the server belongs to the user')
    // Every first attempt fails, and its copy is published to a delay queue.
    const all = orders(100, { deed: 'fail-once', takesMs: 50 })
    await using testbed = await Testbed.open({
      queue: await broker.createQueue({ holdMs: 0 }),
      worker: { transaction: 'each', concurrency: 1, retryBaseMs: 100 },
    })
    await testbed.send(all)
    const worker = testbed.spawn('worker')
    await worker.start()
    await testbed.until(async () => (await testbed.runs()).length > 10, { what: 'some runs' })

    await evaluate(memoryLimit('1MB'))
    await testbed.until(async () => (await worker.health()).state === 'recovering', {
      what: 'the worker to be blocked',
    })
    expect((await worker.health()).reason).toMatch(/blocks publishers: low on memory/)
    expect(Object.keys(await testbed.effects()).length).toBeLessThan(all.length)
    await evaluate(memoryLimit('512MB'))

    await effectsReach(testbed, all.length)
    await testbed.until(async () => (await worker.health()).state === 'running', {
      what: 'the worker to go on',
    })
    await endsWithEverythingOnce(testbed, all)
  })

  // Red when an acknowledgement on a channel that the server closed ends the consumer, or when the message runs again.
  test('a message whose handler outlasts the consumer timeout of the server comes back and has one effect', async ({
    skip,
  }) => {
    if (evaluate === undefined) return skip('the server belongs to the user')
    await evaluate(TIMEOUTS)
    await using testbed = await Testbed.open({
      queue: await broker.createQueue(),
      worker: { transaction: 'each', concurrency: 4, deadlineMs: 600_000 },
    })
    const worker = testbed.spawn('worker')
    await worker.start()
    await testbed.send([STALLED])
    await worker.heard('reached')
    await testbed.until(async () => (await worker.received(STALLED.id)) > 1, {
      what: 'the server to take it back',
    })
    worker.say({ kind: 'go' })

    await endsWithEverythingOnce(testbed, [STALLED])
    expect(await testbed.runs()).toHaveLength(1)
    expect(worker.log).toContain('delivery acknowledgement on channel')
  })
})
