import { createGuard } from '@onceward/core'
import { toDelivery } from '@onceward/core/memory'
import { pgInbox } from '@onceward/postgres/pg'
import { redisLeases } from '@onceward/redis'
import type { InspectedEvent } from '@onceward/redis/operator'
import { redis, skipped } from '@onceward/testing'
import { silent } from '@onceward/testing/conformance'
import { Redis } from 'ioredis'
import { expect, test } from 'vitest'
import { answer } from '../fixtures/cli.ts'
import { operated } from '../fixtures/operated.ts'

interface Told {
  readonly redis: InspectedEvent
  readonly next: { readonly kind: string; readonly reason?: string; readonly why: string }
}

test.skipIf(skipped('redis'))(
  'explain tells what Redis knows of an event that runs, and that is done',
  async () => {
    await using at = await operated()
    await using server = await redis()
    const client = new Redis(server.connection.url)
    const [started, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const leases = redisLeases(client, { budgetMs: 5_000, hold: 'always' })
    const guard = createGuard(
      {
        ...{ consumer: 'mailing', inbox: pgInbox(at.pool), leases, logger: silent },
        eventKey: ({ messageId }) => messageId,
      },
      async () => {
        started.resolve()
        await gate.promise
      },
    )
    const explain = (): Promise<Told> =>
      answer<Told>(['explain', 'a', '--consumer', 'mailing', '--redis', server.connection.url], at)
    try {
      const running = guard.process(toDelivery({}, { messageId: 'a' }))
      await started.promise
      const meanwhile = await explain()
      expect(meanwhile.redis).toMatchObject({
        kind: 'in-progress',
        attempt: 1,
        detail: 'first',
        isMarked: false,
      })
      expect(meanwhile.redis.remainingMs).toBeGreaterThan(0)
      expect(meanwhile.next).toMatchObject({ kind: 'defer', reason: 'in-progress' })
      gate.resolve()
      expect(await running).toMatchObject({ kind: 'ack' })
      const after = await explain()
      expect(after.redis).toMatchObject({ kind: 'absent', isMarked: true })
      expect(after.next).toMatchObject({
        kind: 'ack',
        reason: 'duplicate',
        why: expect.stringContaining('Redis'),
      })
    } finally {
      gate.resolve()
      await guard.close()
      client.disconnect()
    }
  },
)
