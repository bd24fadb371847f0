// @module-tag nightly

import { type Server, type SqsConnection, sqs } from '@onceward/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createSqsQueue } from '../../brokers/sqs/queue.ts'
import { severCommit, targetOf, through } from '../../support/crash/wire-faults.ts'
import { everythingOnce, orders, stillAlive } from '../../support/effects.ts'
import { Testbed } from '../../support/testbed.ts'

const VICTIM = { id: 'order-victim' }

let queue: Server<SqsConnection>
beforeAll(async () => {
  queue = await sqs({ process: true })
})
afterAll(() => queue.stop())

/*
 * Red when the end of the connection is taken for a failure (the handler runs again beside its own commit, or a row
 * of a failure is written over it), and when it is taken for a success (the event that did not arrive is lost).
 */
describe.concurrent('a connection that is cut at COMMIT', () => {
  describe.each(['each', 'batch'] as const)("transaction '%s'", (transaction) => {
    test.each([
      {
        name: 'the COMMIT arrived, its answer is lost: the handler does not run again',
        arrives: true,
      },
      { name: 'the COMMIT did not arrive: the handler runs again at once', arrives: false },
    ])('$name', async ({ arrives }) => {
      await using testbed = await Testbed.open({
        queue: await createSqsQueue(queue.connection),
        worker: { transaction },
      })
      const target = targetOf(testbed.databaseUrl)
      const fault = { text: VICTIM.id, arrives, by: 'cut' } as const
      const severed = await severCommit(target, fault)
      await using _proxy = severed.proxy
      const worker = testbed.spawn('worker', {
        databaseUrl: through(testbed.databaseUrl, severed.proxy),
      })
      const all = [...orders(4), VICTIM]
      await testbed.send(all)
      await worker.start()

      await severed.reached
      await everythingOnce(testbed, all)

      const told = worker.settled.filter(({ id }) => id === VICTIM.id).map(({ why }) => why)
      expect(told).toEqual(['processed'])
      const runs = (await testbed.runs()).filter(({ id }) => id === VICTIM.id)
      expect(runs).toHaveLength(arrives ? 1 : 2)
      stillAlive([worker])
    })
  })
})
