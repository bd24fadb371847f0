// @module-tag nightly

import { type Server, type SqsConnection, sqs } from '@onceward/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createSqsQueue } from '../../brokers/sqs/queue.ts'
import { everythingOnce } from '../../support/effects.ts'
import { TestStage } from '../../support/test-stage.ts'

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
      await using stage = await TestStage.open({
        queue: await createSqsQueue(queue.connection),
        worker: { transaction, deadlineMs: 3_000 },
      })
      const owner = stage.spawn('owner')
      const successor = stage.spawn('successor')
      await stage.send([STALLED])
      await owner.start()
      await owner.heard('reached')
      await owner.kill('SIGSTOP')

      await successor.start()
      await successor.heard('reached')
      successor.say({ kind: 'go' })
      await stage.until(async () => (await stage.state(STALLED.id)) === 'd', {
        what: 'the commit of the successor',
      })
      await owner.kill('SIGCONT')
      owner.say({ kind: 'go' })
      await stage.until(async () => owner.settled.length > 0, { what: 'the owner to give up' })

      expect(owner.settled.map(({ why }) => why)).not.toContain('processed')
      expect(await stage.committed(STALLED.id)).toMatchObject([{ worker: 'successor' }])
      const { rowCount } = await stage.pool.query('select from afterwards')
      expect(rowCount).toBe(1)
      await successor.kill()
      await stage.send([AFTER])
      await everythingOnce(stage, [STALLED, AFTER])
      expect(await stage.committed(AFTER.id)).toMatchObject([{ worker: 'owner' }])
    },
  )
})
