import { expect, test } from 'vitest'
import { startConsumption } from '../../adapter/consumption.ts'
import { memoryInbox, memoryLeases, toDelivery } from '../../memory/index.ts'
import type { Guard } from '../../model/guard-port.ts'
import { portOf } from '../../model/guard-port.ts'
import type { LeaseStore } from '../../model/lease-store.ts'
import { createGuard } from '../guard.ts'

const quiet = {
  ...{ debug: () => undefined, info: () => undefined },
  ...{ warn: () => undefined, error: () => undefined },
}

/** A guard whose leases are asked by need; the number of events that were claimed, and of those that were marked. */
function setUp() {
  const memory = memoryLeases()
  const asked = { claimed: 0, marked: 0 }
  const leases: LeaseStore = {
    ...memory,
    claim: (claims) => {
      asked.claimed += claims.length
      return memory.claim(claims)
    },
    marks: () => write,
  }
  const write = async (done: readonly unknown[]): Promise<void> => {
    asked.marked += done.length
  }
  const options = { consumer: 'billing', inbox: memoryInbox(), leases, logger: quiet }
  const make = (): Guard => createGuard(options, () => undefined)
  return { asked, guard: make(), other: make() }
}

const newOrder = (index: number) => toDelivery({}, { headers: { 'idempotency-key': `${index}` } })

async function run(guard: Guard, events: number): Promise<void> {
  for (let index = 0; index < events; index++) await guard.process(newOrder(index))
}

// Red when every event is claimed, and when closing does not write what is left.
test('new events are not claimed, and closing the guard marks them', async () => {
  const { asked, guard } = setUp()
  await run(guard, 20)
  await guard.close()
  expect(asked).toEqual({ claimed: 0, marked: 20 })
})

test('a delivery that may be a copy is claimed', async () => {
  const { asked, guard } = setUp()
  await guard.process({ ...newOrder(1), redelivered: true })
  expect(asked.claimed).toBe(1)
  await guard.close()
})

test('a storm of copies of what other processes have done is claimed before a hundred are through', async () => {
  const { asked, guard, other } = setUp()
  await run(other, 100)
  asked.claimed = 0
  await run(guard, 100)
  expect(asked.claimed).toBeGreaterThan(50)
  await Promise.all([guard.close(), other.close()])
})

// Red when a drain leaves the marks to a timer that the end of the process cancels.
test('a drain marks what its guard has done', async () => {
  const { asked, guard } = setUp()
  const done = async (): Promise<void> => undefined
  const consumption = await startConsumption({
    ...{ port: portOf(guard), drainMs: 1_000, signal: undefined, queue: 'orders' },
    describe: String,
    createLoop: () => ({
      receiver: { outage: undefined, start: done, stop: done },
      dispatcher: { inFlight: 0, clear: () => undefined, ended: done },
      settling: { settleFailures: 0 },
      finish: done,
    }),
  })
  await run(guard, 3)
  await consumption.drain()
  expect(asked.marked).toBe(3)
  await guard.close()
})
