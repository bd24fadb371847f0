// @module-tag nightly

import { skipped } from '@onceward/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { AmqpQueue, AmqpQueueOptions } from '../../brokers/amqp/queue.ts'
import { startRabbitmq } from '../../brokers/amqp/server.ts'
import type { RunningBroker } from '../../brokers/broker.ts'
import { endsWithEverythingOnce } from '../../support/audit.ts'
import { effectsReach, onceEach, orders } from '../../support/effects.ts'
import { Testbed } from '../../support/testbed.ts'
import { Crew } from '../../support/workers/crew.ts'
import type { WorkerConfig } from '../../support/workers/protocol.ts'

const STALLED = { id: 'order-stalled', deed: 'stall' } as const

describe.skipIf(skipped('rabbitmq')).concurrent('RabbitMQ', () => {
  let broker: RunningBroker<AmqpQueue, AmqpQueueOptions>
  beforeAll(async () => {
    broker = await startRabbitmq({ type: 'quorum' })
  })
  afterAll(() => broker?.server.stop())

  const openTestbed = async (
    options: AmqpQueueOptions = {},
    worker: Partial<WorkerConfig> = {},
  ): Promise<Testbed> =>
    Testbed.open({
      queue: await broker.createQueue(options),
      worker: { transaction: 'each', concurrency: 4, ...worker },
    })

  // Red when a poison message is requeued: it comes back at once, thousands of times, in place of the others.
  test('poison messages leave the others at least four fifths of the deliveries', async () => {
    await using testbed = await openTestbed(
      { prefetch: 8 },
      { attempts: 30, retryBaseMs: 2_000, random: 0.99 },
    )
    const worker = testbed.spawn('worker')
    await worker.start()
    const poisons = orders(4, { deed: 'fail-always' }).map(({ id, deed }) => ({
      id: `${id}-poison`,
      deed,
    }))
    await testbed.send(poisons)
    await testbed.until(async () => (await testbed.troubles()).length === poisons.length, {
      what: 'failures',
    })
    const steps = 60
    for (let step = 0; step < steps; step += 1) {
      await testbed.send([{ id: `order-${step}` }])
      await effectsReach(testbed, step + 1)
    }

    const runs = (await testbed.runs()).filter(({ id }) => id.endsWith('-poison'))
    expect((await testbed.troubles()).map(({ state }) => state)).toEqual(poisons.map(() => 'w'))
    expect(runs.length / poisons.length).toBeLessThan(steps / 5)
  })

  // Red when a wait beyond the longest level never ends, or ends with that level.
  test('acceptance A13: a retry that waits longer than the longest delay queue takes several turns, and runs when it is due', async () => {
    const levels = { retryLevelsMs: [300, 600], holdMs: 0 }
    await using testbed = await openTestbed(levels, { retryBaseMs: 8_000, random: 0.99 })
    const worker = testbed.spawn('worker')
    await worker.start()
    const failing = { id: 'order-failing', deed: 'fail-once' } as const
    await testbed.send([failing])

    await effectsReach(testbed, 1)
    expect(worker.settled.filter(({ why }) => why === 'not-due').length).toBeGreaterThan(1)
    expect(await testbed.runs()).toHaveLength(2)
    await endsWithEverythingOnce(testbed, [failing])
  })

  // Red when unstarted messages wait in a draining process until its last handler has ended.
  test('a drain gives back messages that it has not started at once', async () => {
    await using testbed = await openTestbed({ prefetch: 20 }, { concurrency: 1 })
    const first = testbed.spawn('first')
    const other = testbed.spawn('other')
    await Promise.all([first.start(), other.heard('ready')])
    await testbed.send([STALLED])
    await first.heard('reached')
    await testbed.send(orders(9))
    await testbed.until(async () => (await first.health()).inFlight === 10, { what: 'ten in hand' })
    await other.start()
    first.say({ kind: 'drain' })

    // The first message is still running.
    await effectsReach(testbed, 9)
    expect(first.all('drained')).toEqual([])
    first.say({ kind: 'go' })
    await first.heard('drained')
    await endsWithEverythingOnce(testbed, [STALLED, ...orders(9)])
    expect(await testbed.runs()).toHaveLength(10)
  })

  // Each lost connection counts for all messages in flight. Red when the count of the queue decides what is dead.
  test('trap T22: processes that die on a queue with a delivery limit drop no other messages', async () => {
    await using testbed = await openTestbed({ deliveryLimit: 6, prefetch: 8 }, { attempts: 3 })
    const innocent = orders(30)
    await testbed.send([...innocent.slice(0, 10), { id: 'order-poison', deed: 'poison' }])
    await testbed.send(innocent.slice(10))
    const crew = await Crew.of(1, testbed)

    await effectsReach(testbed, innocent.length)
    await testbed.until(async () => (await testbed.troubles())[0]?.published, {
      what: 'a dead letter',
    })
    crew.end()
    expect(await testbed.effects()).toEqual(onceEach(innocent))
    expect(await testbed.queue?.deadLetters()).toEqual([
      { id: 'order-poison', reason: 'attempts-spent' },
    ])
  })
})
