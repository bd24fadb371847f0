// @module-tag nightly

import {
  type RedisConnection,
  redis,
  type Server,
  type SqsConnection,
  sqs,
} from '@onceward/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createSqsQueue } from '../../brokers/sqs/queue.ts'
import { everythingOnce } from '../../support/effects.ts'
import { Testbed } from '../../support/testbed.ts'
import type { CrashPoint } from '../../support/workers/protocol.ts'

const STALLED = { id: 'order-stalled', deed: 'stall' } as const
const VICTIM = { id: 'order-victim' }

let queue: Server<SqsConnection>
let cache: Server<RedisConnection>
beforeAll(async () => {
  ;[queue, cache] = await Promise.all([sqs({ process: true }), redis()])
})
afterAll(() => Promise.all([queue, cache].map((server) => server.stop())))

const openTestbed = async (
  transaction: 'each' | 'batch',
  longestHiddenMs?: number,
): Promise<Testbed> =>
  Testbed.open({
    queue: await createSqsQueue(queue.connection, { longestHiddenMs }),
    worker: { transaction, deadlineMs: 3_000, redisPort: cache.connection.port },
  })

describe.concurrent.each(['each', 'batch'] as const)(
  "leases in Redis beside the inbox, transaction '%s'",
  (transaction) => {
    // Red when the lease instead of the row decides who may commit: the lease changes its owner twice here.
    test('traps T5 and A4: an owner that continues after SIGSTOP cannot commit after its successor', async () => {
      await using testbed = await openTestbed(transaction)
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
      await everythingOnce(testbed, [STALLED])
      expect(await testbed.committed(STALLED.id)).toMatchObject([{ worker: 'successor' }])
    })

    async function die(testbed: Testbed, at: CrashPoint) {
      const first = testbed.spawn('first', { crash: { at, id: VICTIM.id } })
      const successor = testbed.spawn('successor')
      await testbed.send([VICTIM])
      await first.start()
      await first.heard('reached')
      await successor.heard('ready')
      first.say({ kind: 'go' })
      expect(await first.ended()).toBe('SIGKILL')
      return successor
    }

    // Red when Redis is not told the state of the row.
    test('the redelivery completes a lease whose owner died after its COMMIT', async () => {
      await using testbed = await openTestbed(transaction, 500)
      const successor = await die(testbed, 'before-complete')
      expect(await testbed.state(VICTIM.id)).toBe('d')
      await successor.start()
      await everythingOnce(testbed, [VICTIM])
      expect(await testbed.committed(VICTIM.id)).toMatchObject([{ worker: 'first' }])
      expect(successor.settled.at(-1)).toMatchObject({ kind: 'ack', why: 'duplicate' })

      // Redis has the done mark again, so that the row in Postgres does not matter any more.
      await testbed.pool.query('delete from onceward.processed_events')
      await testbed.send([VICTIM])
      await everythingOnce(testbed, [VICTIM])
      expect(successor.settled.at(-1)).toMatchObject({ kind: 'ack', why: 'duplicate' })
    })
  },
)
