import { type RedisConnection, redis, type Server, until } from '@onceward/testing'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { TestStage } from '../../support/test-stage.ts'
import type { Order, WorkerConfig } from '../../support/workers/protocol.ts'
import type { WorkerProcess } from '../../support/workers/worker-process.ts'

const STALLED: Order = { id: 'order-stalled', deed: 'stall' }
const COPIES = 5

/** Renewed at a third: in no test is the owner due for one. */
const LEASE_MS = 300_000
/** The claim, and three more of one who waits. */
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

/** Scripts that Redis ran since `RESETSTAT`, whoever asked. */
async function calls(): Promise<number> {
  const [, count = '0'] = /cmdstat_evalsha:calls=(\d+)/.exec(await admin.info('commandstats')) ?? []
  return Number(count)
}

interface Pair {
  /** Its handler is inside its transaction, and stays there until it is told to `go`. */
  readonly owner: WorkerProcess
  /** Open, with nothing in hand. */
  readonly waiter: WorkerProcess
}

/** Two processes, one of which has the event in hand; from here on Redis counts. */
async function openPair(stage: TestStage, own: Partial<WorkerConfig>): Promise<Pair> {
  const [owner, waiter] = [stage.spawn('owner', own), stage.spawn('waiter', own)]
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

async function oneEffect(stage: TestStage, worker: string): Promise<void> {
  expect(await stage.committed(STALLED.id)).toMatchObject([{ worker }])
}

describe.each(['each', 'batch'] as const)(
  "an event that another process has in hand, transaction '%s'",
  (transaction) => {
    const openStage = (): Promise<TestStage> =>
      TestStage.open({
        worker: { transaction, redisPort: server.connection.port, leaseMs: LEASE_MS },
      })

    // Red when a claim that is in progress is deferred at once.
    test('is waited for: its copies are duplicates as soon as its owner has committed', async () => {
      await using stage = await openStage()
      const { owner, waiter } = await openPair(stage, { claimWaitMs: 30_000 })
      deliver(waiter, Array<Order>(COPIES).fill(STALLED))
      await hasAsked()
      owner.say({ kind: 'go' })
      await waiter.heard('delivered', 2)
      expect(answersOf(owner)).toEqual(['ack processed'])
      expect(answersOf(waiter)).toEqual(Array(COPIES).fill('ack duplicate'))
      expect((await stage.runs()).filter(({ id }) => id === STALLED.id)).toHaveLength(1)
      await oneEffect(stage, 'owner')
    })

    // Red when a waiter polls until the lease is free, and when each of the copies waits for itself.
    test('acceptance A18: costs Redis a handful of calls, and then its copies are deferred', async () => {
      await using stage = await openStage()
      const { owner, waiter } = await openPair(stage, { claimWaitMs: 2_000 })
      deliver(waiter, Array<Order>(COPIES).fill(STALLED))
      await waiter.heard('delivered', 2)
      expect(await calls()).toBe(HANDFUL)
      expect(answersOf(waiter)).toEqual(Array(COPIES).fill('defer in-progress'))
      // Until the lease would be over, not until the next look.
      const waits = waiter.settled.slice(-COPIES).map(({ waitMs = 0 }) => waitMs)
      expect(Math.min(...waits)).toBeGreaterThan(LEASE_MS / 2)
      owner.say({ kind: 'go' })
      await owner.heard('delivered')
      deliver(waiter, [STALLED])
      await waiter.heard('delivered', 3)
      expect(answersOf(waiter).at(-1)).toBe('ack duplicate')
      await oneEffect(stage, 'owner')
    })

    // Red when what was claimed for one who waits is run as if nobody had had it before.
    test('is taken over by who waits for it when its owner is killed', async () => {
      await using stage = await openStage()
      const { owner, waiter } = await openPair(stage, { claimWaitMs: 20_000, leaseMs: 1_000 })
      deliver(waiter, [STALLED])
      await hasAsked()
      await owner.kill()
      await waiter.heard('reached')
      waiter.say({ kind: 'go' })
      await waiter.heard('delivered', 2)
      expect(answersOf(waiter)).toEqual(['ack processed'])
      await oneEffect(stage, 'waiter')
    })
  },
)
