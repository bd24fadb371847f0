// @module-tag nightly

import { skipped, until } from '@onceward/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { BROKER_NAMES, BROKERS } from '../brokers/index.ts'
import {
  run,
  runToEnd,
  type SampleQueue,
  type SampleScenario,
  type SampleServer,
  terminate,
} from '../support/samples.ts'

const ORDER = { orderId: 'order-1', accountId: 1, cents: 1_999 }
const CHARGE = { order_id: 'order-1', cents: 1_999 }

const charges = async ({ pool }: SampleScenario): Promise<unknown[]> =>
  (await pool.query('select * from charges')).rows

/** Sends the order twice; resolves when the sample has charged it `times` times and has ended at SIGTERM. */
async function runConsumer(name: string, times: number, queue: SampleQueue): Promise<void> {
  const { scenario } = queue
  expect(await runToEnd('migrate', scenario)).toMatch(/version \d+, applied now: 000001/)
  await queue.send(ORDER)
  await queue.send(ORDER)
  await using sample = run(name, scenario)
  await until(
    async () => {
      expect(sample.process.exitCode, sample.output()).toBeNull()
      return (await charges(scenario)).length === times && (await queue.waiting()) === 0
    },
    { what: `${name} to settle both`, deadlineMs: 120_000 },
  )
  const code = await terminate(sample)
  // The first screen leaves its shutdown out.
  if (name !== 'first-screen') expect(code, sample.output()).toBe(0)
}

const SAMPLES = BROKER_NAMES.map((name) => ({ ...BROKERS[name], ...BROKERS[name].samples }))

describe.each(SAMPLES)('the samples for $title run unchanged', (samples) => {
  const { quickStart, guarded, unguarded, haveOwnQueues, start, service } = samples
  let server: SampleServer
  beforeAll(async () => {
    if (!skipped(service)) server = await start()
  })
  afterAll(() => (server as SampleServer | undefined)?.stop())

  describe.skipIf(skipped(service))('', { concurrent: haveOwnQueues }, () => {
    for (const name of [quickStart, ...guarded]) {
      test(`${name} charges an order that was sent twice once, and ends at SIGTERM`, async () => {
        await using queue = await server.openQueue()
        await runConsumer(name, 1, queue)
        expect(await charges(queue.scenario)).toEqual([CHARGE])
        // A message that was in flight and not acknowledged is back in the queue by now.
        if (name !== 'first-screen') expect(await queue.waiting()).toBe(0)
      })
    }

    for (const name of unguarded) {
      test(`${name}, which has no guard, charges it twice`, async () => {
        await using queue = await server.openQueue()
        await runConsumer(name, 2, queue)
        expect(await charges(queue.scenario)).toEqual([CHARGE, CHARGE])
      })
    }
  })
})
