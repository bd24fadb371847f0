import { createGuard } from '@onceward/core'
import { memoryLeases, toDelivery } from '@onceward/core/memory'
import { type AloneLock, createAloneLock, systemRuntime } from '@onceward/core/ports'
import { until } from '@onceward/testing'
import { silent } from '@onceward/testing/conformance'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Billing, charge, createGate, openBilling, orderPlaced } from './billing.ts'

/** Long after the two seconds that an event waits to run alone, and long before any deadline. */
const STUCK_MS = 40_000
const DEADLINE_MS = 600_000

let billing: Billing
beforeAll(async () => {
  billing = await openBilling()
})
afterAll(() => billing[Symbol.asyncDispose]())

/** Leaves an event as a process leaves it that died in its run: counted long ago, without a result. */
async function leftBehind(key: string): Promise<void> {
  const died = billing.guard(async (_, { tx }) => {
    await tx.query('select pg_terminate_backend(pg_backend_pid())')
  })
  await died.process(orderPlaced(key, { redelivered: true }))
  await billing.admin.query(`
    update onceward.failed_events set counted_at = now() - interval '1 minute', alone = true`)
  await billing.admin.query(`update onceward.processed_events set state = 'r' where state = 'w'`)
}

/** The same lock; notes the waits for a share of it. */
function noting(lock: AloneLock, waiting: unknown[]): AloneLock {
  return {
    version: 1,
    tryShared: () => lock.tryShared(),
    shared: (wait) => {
      waiting.push(wait)
      return lock.shared(wait)
    },
    exclusive: (wait) => lock.exclusive(wait),
    runInside: (release, task) => lock.runInside(release, task),
    isInside: () => lock.isInside(),
  }
}

// Red when messages without a key or with leases alone do not take part in the lock of the process.
test('trap T13: no other guard of the process runs a message beside an event that runs alone', async () => {
  const lock = createAloneLock()
  const runtime = { ...systemRuntime, alone: lock }
  await leftBehind('suspect')
  const gate = createGate()
  const alone = billing.guard(
    async (event, context) => {
      await gate.pass()
      await charge(event, context)
    },
    { options: { runtime } },
  )
  const beside: string[] = []
  const waiting: unknown[] = []
  const neighbour = createGuard(
    {
      consumer: 'neighbour',
      leases: memoryLeases(),
      runtime: { ...runtime, alone: noting(lock, waiting) },
      logger: silent,
      onTakeover: 'retry',
      onMissingKey: 'unguarded',
    },
    async ({ key }) => {
      beside.push(key === 'leased' ? key : 'without a key')
    },
  )
  const running = alone.process(orderPlaced('suspect', { redelivered: true }))
  await gate.reached
  const others = [
    neighbour.process(toDelivery({}, { headers: { 'idempotency-key': 'leased' } })),
    neighbour.process({ ...toDelivery({}), messageId: undefined }),
  ]
  await until(() => waiting.length === others.length || beside.length > 0)
  expect(beside).toEqual([])
  gate.open()
  expect(await running).toMatchObject({ kind: 'ack', by: 'processed' })
  await Promise.all(others)
  expect(beside.toSorted()).toEqual(['leased', 'without a key'])
})

// Red when the wait to run alone has no bound: everything behind it waits until the longest run has ended.
test('trap T13: an event that waits to run alone is deferred, and the runs behind it continue', {
  timeout: STUCK_MS,
}, async () => {
  const runtime = { ...systemRuntime, alone: createAloneLock() }
  await leftBehind('waiting')
  const gate = createGate()
  const options = { runtime, deadlineMs: DEADLINE_MS }
  const busy = billing.guard(() => gate.pass(), { options })
  const running = busy.process(orderPlaced('long'))
  await gate.reached
  const guard = billing.guard(charge, { options })
  const waiting = guard.process(orderPlaced('waiting', { redelivered: true }))
  expect(await waiting).toMatchObject({ kind: 'defer', reason: 'in-progress' })
  expect(await guard.process(orderPlaced('behind'))).toMatchObject({ by: 'processed' })
  gate.open()
  await running
})
