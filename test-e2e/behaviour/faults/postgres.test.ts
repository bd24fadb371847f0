// @module-tag nightly

import {
  type PostgresServer,
  postgres,
  type Server,
  type SqsConnection,
  sqs,
} from '@onceward/testing'
import { afterAll, beforeAll, describe, test } from 'vitest'
import { createSqsQueue } from '../../brokers/sqs/queue.ts'
import { createDice } from '../../support/dice.ts'
import { effectsReach, everythingOnce, orders, stillAlive } from '../../support/effects.ts'
import { Testbed } from '../../support/testbed.ts'

const COUNT = 300

let queue: Server<SqsConnection>
let server: PostgresServer
beforeAll(async () => {
  queue = await sqs({ process: true })
  // Not the shared server, because this one is killed.
  server = await postgres({ native: true })
})
afterAll(() => Promise.all([queue.stop(), server.stop()]))

/*
 * Red when an error of the store ends the loop (trap T16), is settled as a failure of the event (with one attempt all
 * that were under way would be dead), or is acked (trap T15).
 */
describe.each(['each', 'batch'] as const)("transaction '%s'", (transaction) => {
  test.each([
    { name: 'restarted', signal: 'SIGINT' },
    { name: 'killed by SIGKILL', signal: 'SIGKILL' },
  ] as const)('Postgres is $name three times under load', async ({ signal }) => {
    const dice = createDice()
    await using testbed = await Testbed.open({
      queue: await createSqsQueue(queue.connection),
      databaseUrl: await server.createDatabase(),
      worker: { transaction, attempts: 1 },
    })
    const all = orders(COUNT, { takesMs: 10 })
    await testbed.send(all)
    const workers = [testbed.spawn('one'), testbed.spawn('two')]
    await Promise.all(workers.map((worker) => worker.start()))

    for (const share of [0.1, 0.4, 0.7]) {
      await effectsReach(testbed, Math.floor(COUNT * (share + dice.next() / 5)))
      await server.kill(signal)
      await server.restart()
    }

    await everythingOnce(testbed, all)
    stillAlive(workers)
  })
})
