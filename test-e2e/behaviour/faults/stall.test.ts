// @module-tag nightly

import { type Server, type SqsConnection, sqs } from '@onceward/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createSqsQueue } from '../../brokers/sqs/queue.ts'
import { everythingOnce } from '../../support/effects.ts'
import { Testbed } from '../../support/testbed.ts'

const STALLED = { id: 'order-stalled', deed: 'stall' } as const
const AFTER = { id: 'order-after' }

let queue: Server<SqsConnection>
beforeAll(async () => {
  queue = await sqs({ process: true })
})
afterAll(() => queue.stop())

describe.concurrent('a process that is frozen inside its transaction', () => {
  /*
   * Red without `idle_in_transaction_session_timeout`: the successor never gets the row of the frozen owner. Red when
   * a lease or an advisory lock decides instead of the row: both commit.
   */
  test.each(['each', 'batch'] as const)(
    "trap T5, acceptance A4: the successor commits, and the owner that continues cannot (transaction '%s')",
    async (transaction) => {
      await using testbed = await Testbed.open({
        queue: await createSqsQueue(queue.connection),
        worker: { transaction, deadlineMs: 3_000 },
      })
      const owner = testbed.spawn('owner')
      const successor = testbed.spawn('successor')
      await testbed.send([STALLED])
      await owner.start()
      await owner.heard('reached')
      await owner.kill('SIGSTOP')

      await successor.start()
      await successor.heard('reached')
      successor.say({ kind: 'go' })
      await testbed.until(async () => (await testbed.state(STALLED.id)) === 'd', {
        what: 'the commit of the successor',
      })
      await owner.kill('SIGCONT')
      owner.say({ kind: 'go' })
      await testbed.until(async () => owner.settled.length > 0, { what: 'the owner to give up' })

      expect(owner.settled.map(({ why }) => why)).not.toContain('processed')
      expect(await testbed.committed(STALLED.id)).toMatchObject([{ worker: 'successor' }])
      const { rowCount } = await testbed.pool.query('select from afterwards')
      expect(rowCount).toBe(1)
      await successor.kill()
      await testbed.send([AFTER])
      await everythingOnce(testbed, [STALLED, AFTER])
      expect(await testbed.committed(AFTER.id)).toMatchObject([{ worker: 'owner' }])
    },
  )
})
