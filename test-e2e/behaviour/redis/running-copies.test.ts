// @module-tag nightly

import { type RedisConnection, redis, type Server, until } from '@onceward/testing'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Testbed } from '../../support/testbed.ts'
import type { Order, WorkerConfig } from '../../support/workers/protocol.ts'
import type { WorkerProcess } from '../../support/workers/worker-process.ts'

const STALLED: Order = { id: 'order-stalled', deed: 'stall' }
const COPIES = 5

/** A lease is renewed after a third of its time, which no test reaches. */
const LEASE_MS = 300_000
/** The claim of the owner, and three claims of the copy that waits. */
const HANDFUL = 4

let server: Server<RedisConnection>
let admin: Redis
beforeAll(async () => {
  server = await redis({ native: true, settings: { appendonly: 'no' } })
  admin = new Redis(server.connection.port)
})
afterAll(async () => {
  admin.disconnect()
  await server.stop()
})

/** Scripts that Redis ran since `RESETSTAT`, for all clients. */
async function calls(): Promise<number> {
  const [, count = '0'] = /cmdstat_evalsha:calls=(\d+)/.exec(await admin.info('commandstats')) ?? []
  return Number(count)
}

interface Pair {
  /** Its handler waits inside its transaction until `go` is called. */
  readonly owner: WorkerProcess
  /** Open, with nothing in flight. */
  readonly waiter: WorkerProcess
}

/** Two processes, one of which processes the event. The script counter of Redis starts here. */
async function openPair(testbed: Testbed, own: Partial<WorkerConfig>): Promise<Pair> {
  const [owner, waiter] = [testbed.spawn('owner', own), testbed.spawn('waiter', own)]
  await Promise.all([owner.heard('ready'), waiter.heard('ready')])
  deliver(owner, [STALLED])
  deliver(waiter, [{ id: 'order-warm' }])
  await Promise.all([owner.heard('reached'), waiter.heard('delivered')])
  await admin.config('RESETSTAT')
  return { owner, waiter }
}

const deliver = (worker: WorkerProcess, orders: readonly Order[]): void =>
  worker.say({
    kind: 'deliver',
    deliveries: orders.map((order) => ({ order, deliveryCount: 1 })),
  })

const answersOf = (worker: WorkerProcess): readonly string[] =>
  worker.settled.filter(({ id }) => id === STALLED.id).map(({ kind, why }) => `${kind} ${why}`)

const hasAsked = (): Promise<boolean> =>
  until(async () => (await calls()) > 0, { what: 'the waiter to ask Redis', everyMs: 5 })

async function oneEffect(testbed: Testbed, worker: string): Promise<void> {
  expect(await testbed.committed(STALLED.id)).toMatchObject([{ worker }])
}

describe.each(['each', 'batch'] as const)(
  "an event that another process is running, transaction '%s'",
  (transaction) => {
    const openTestbed = (): Promise<Testbed> =>
      Testbed.open({
        worker: { transaction, redisPort: server.connection.port, leaseMs: LEASE_MS },
      })

    // Red when a claim that is in progress is deferred at once.
    test('is awaited, and its copies are duplicates as soon as its owner has committed', async () => {
      await using testbed = await openTestbed()
      const { owner, waiter } = await openPair(testbed, { claimWaitMs: 30_000 })
      deliver(waiter, Array<Order>(COPIES).fill(STALLED))
      await hasAsked()
      owner.say({ kind: 'go' })
      await waiter.heard('delivered', 2)
      expect(answersOf(owner)).toEqual(['ack processed'])
      expect(answersOf(waiter)).toEqual(Array(COPIES).fill('ack duplicate'))
      expect((await testbed.runs()).filter(({ id }) => id === STALLED.id)).toHaveLength(1)
      await oneEffect(testbed, 'owner')
    })

    // Red when a waiting copy polls until the lease is free, and when each copy polls on its own.
    test('acceptance A18: costs Redis a few calls, and then its copies are deferred', async () => {
      await using testbed = await openTestbed()
      // By need, the first delivery of the owner takes no lease: the copies wait for its row, and ask Redis once.
      const settings = { claimWaitMs: 2_000, redisHold: 'always' } as const
      const { owner, waiter } = await openPair(testbed, settings)
      deliver(waiter, Array<Order>(COPIES).fill(STALLED))
      await waiter.heard('delivered', 2)
      expect(await calls()).toBe(HANDFUL)
      expect(answersOf(waiter)).toEqual(Array(COPIES).fill('defer in-progress'))
      // The copy is deferred until the lease would expire, not until the next poll.
      const waits = waiter.settled.slice(-COPIES).map(({ waitMs = 0 }) => waitMs)
      expect(Math.min(...waits)).toBeGreaterThan(LEASE_MS / 2)
      owner.say({ kind: 'go' })
      await owner.heard('delivered')
      deliver(waiter, [STALLED])
      await waiter.heard('delivered', 3)
      expect(answersOf(waiter).at(-1)).toBe('ack duplicate')
      await oneEffect(testbed, 'owner')
    })

    // Red when the claim of a waiting copy is run as a first attempt although another process had the event.
    test('is taken over by the waiting copy when its owner is killed', async () => {
      await using testbed = await openTestbed()
      const { owner, waiter } = await openPair(testbed, { claimWaitMs: 20_000, leaseMs: 1_000 })
      deliver(waiter, [STALLED])
      await hasAsked()
      await owner.kill()
      await waiter.heard('reached')
      waiter.say({ kind: 'go' })
      await waiter.heard('delivered', 2)
      expect(answersOf(waiter)).toEqual(['ack processed'])
      await oneEffect(testbed, 'waiter')
    })
  },
)
