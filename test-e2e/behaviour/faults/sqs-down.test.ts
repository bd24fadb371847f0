// @module-tag nightly

import { setTimeout as sleep } from 'node:timers/promises'
import { sqs } from '@onceward/testing'
import { describe, test } from 'vitest'
import { createSqsQueue } from '../../brokers/sqs/queue.ts'
import { effectsReach, everythingOnce, orders, stillAlive } from '../../support/effects.ts'
import { Testbed } from '../../support/testbed.ts'

/** Longer than the back-off of the receiving loop grows: its longest pause, 2 s, comes after about 3 s. */
const DOWN_MS = 8_000
const COUNT = 200

describe.concurrent.each(['each', 'batch'] as const)("transaction '%s'", (transaction) => {
  /*
   * Red when an error of the receive ends the loop (trap T16), and when an event that was committed while SQS was
   * down runs again afterwards.
   */
  test('an outage of SQS under load loses and doubles nothing', async () => {
    await using queue = await sqs({ process: true, native: true })
    await using testbed = await Testbed.open({
      queue: await createSqsQueue(queue.connection),
      worker: { transaction },
    })
    const all = orders(COUNT, { takesMs: 20 })
    await testbed.send(all)
    const workers = [testbed.spawn('one'), testbed.spawn('two')]
    await Promise.all(workers.map((worker) => worker.start()))

    await effectsReach(testbed, COUNT / 10)
    await queue.kill('SIGKILL')
    const outage = sleep(DOWN_MS)
    for (const worker of workers) {
      await testbed.until(async () => (await worker.health()).state === 'recovering', {
        what: `${worker.name} to notice`,
      })
    }
    await outage
    await queue.restart()

    await everythingOnce(testbed, all)
    for (const worker of workers) {
      stillAlive([worker])
      await testbed.until(async () => (await worker.health()).state === 'running', {
        what: `${worker.name} to recover`,
      })
    }
  })
})
