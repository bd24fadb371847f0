import { expect, test } from 'vitest'
import { startConsumption } from '../../adapter/consumption.ts'
import { changed, silent } from '../../fixtures/inbox.ts'
import { createShift } from '../../fixtures/shift.ts'
import { memoryInbox, memoryLeases, toDelivery } from '../../memory/index.ts'
import type { Delivery } from '../../model/delivery.ts'
import type { Guard } from '../../model/guard-port.ts'
import { portOf } from '../../model/guard-port.ts'
import type { DoneMark, LeaseStore } from '../../model/lease-store.ts'
import { createGuard } from '../guard.ts'

/** A lease store whose marks are written down, with a history that the test can hide. */
function setUp() {
  const { runtime } = createShift()
  const claimed: number[] = []
  const marks: DoneMark[] = []
  const log: string[] = []
  const history = { isKnown: true }
  const store = memoryLeases(runtime)
  const leases: LeaseStore = changed<LeaseStore>(store, {
    claim: (claims) => {
      claimed.push(claims.length)
      return store.claim(claims)
    },
    marks: () => {
      log.push('history')
      if (!history.isKnown) return undefined
      return write
    },
  })
  const write = async (done: readonly DoneMark[]): Promise<void> => {
    log.push('marks')
    marks.push(...done)
  }
  const inbox = memoryInbox()
  const make = (): Guard =>
    createGuard({ consumer: 'billing', inbox, leases, logger: silent, runtime }, ({ key }) => {
      log.push('handler')
      return { key }
    })
  return { claimed, guard: make(), other: make(), history, log, marks }
}

const delivery = (key: string, more: Partial<Delivery> = {}): Delivery => ({
  ...toDelivery({ key }, { messageId: key }),
  ...more,
})

test('a first delivery takes no claim, and is remembered behind its ack, in the history of before its transaction', async () => {
  const { claimed, guard, log, marks } = setUp()
  expect(await guard.process(delivery('a'))).toMatchObject({ kind: 'ack', by: 'processed' })
  expect(log).toEqual(['history', 'handler'])
  await guard.close()
  expect(log).toEqual(['history', 'handler', 'marks'])
  expect(claimed).toEqual([])
  expect(marks).toMatchObject([{ result: { key: 'a' } }])
})

test('what may be a copy is claimed', async () => {
  const { claimed, guard } = setUp()
  await guard.process(delivery('a', { redelivered: true }))
  expect(claimed).toEqual([1])
  await guard.close()
})

test('all events are claimed while the history is not known', async () => {
  const { claimed, guard, history } = setUp()
  history.isKnown = false
  await guard.process(delivery('a'))
  expect(claimed).toEqual([1])
  await guard.close()
})

test('a storm of copies of what other processes have done is claimed within a hundred events', async () => {
  const { claimed, guard, other } = setUp()
  const keys = Array.from({ length: 100 }, (_, n) => `order-${n}`)
  for (const key of keys) await other.process(delivery(key))
  expect(claimed).toEqual([])
  for (const key of keys) {
    expect(await guard.process(delivery(key))).toMatchObject({ kind: 'ack', by: 'duplicate' })
  }
  expect(claimed.length).toBeGreaterThan(60)
  await Promise.all([guard.close(), other.close()])
})

// Red when a drain leaves the marks to a timer that the end of the process cancels.
test('a drain marks what its guard has done', async () => {
  const { guard, marks } = setUp()
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
  await guard.process(delivery('a'))
  expect(marks).toEqual([])
  await consumption.drain()
  expect(marks).toHaveLength(1)
  await guard.close()
})

test('a failure leaves no mark', async () => {
  const { runtime } = createShift()
  const marks: unknown[] = []
  const leases: LeaseStore = changed<LeaseStore>(memoryLeases(runtime), {
    marks: () => async (done) => void marks.push(done),
  })
  const guard = createGuard(
    { consumer: 'billing', inbox: memoryInbox(), leases, logger: silent, runtime },
    () => {
      throw new Error('no')
    },
  )
  await guard.process(delivery('a'))
  await guard.close()
  expect(marks).toEqual([])
})
