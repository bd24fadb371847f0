import { setImmediate as turn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { Clock } from '../../fixtures/clock.ts'
import { setUp } from '../../fixtures/guard.ts'
import { changedInbox, silent } from '../../fixtures/inbox.ts'
import { createShift } from '../../fixtures/shift.ts'
import { memoryInbox, memoryLeases, toDelivery } from '../../memory/index.ts'
import { FatalError } from '../../model/errors.ts'
import { portOf } from '../../model/guard-port.ts'
import type { Settlement } from '../../model/settlement.ts'
import { createGuard } from '../guard.ts'

const CLOSING = { kind: 'abandon', reason: 'closing', cause: 'draining' }

test('deliveries that wait for a slot are returned at once after a stop', async () => {
  const gate = Promise.withResolvers<void>()
  const started = Promise.withResolvers<void>()
  const { guard } = setUp(
    () => {
      started.resolve()
      return gate.promise
    },
    { concurrency: 1 },
  )
  const stop = new AbortController()
  const settled: Settlement[] = []
  const deliveries = [toDelivery(1), toDelivery(2), toDelivery(3)]
  const run = portOf(guard).run(deliveries, {
    stop: stop.signal,
    onSettlement: (index, settlement) => {
      settled[index] = settlement
    },
  })
  await started.promise
  stop.abort()
  await expect.poll(() => settled.filter(Boolean)).toHaveLength(2)
  expect(settled[0]).toBeUndefined()
  gate.resolve()
  expect(await run).toEqual([{ kind: 'ack', by: 'processed' }, CLOSING, CLOSING])
  await guard.close()
})

test('close lets the running handler end and returns the other deliveries', async () => {
  const gate = Promise.withResolvers<void>()
  const started = Promise.withResolvers<void>()
  const { guard } = setUp(
    () => {
      started.resolve()
      return gate.promise
    },
    { concurrency: 1 },
  )
  const run = guard.processBatch([toDelivery(1), toDelivery(2)])
  await started.promise
  const closed = guard.close()
  gate.resolve()
  expect(await run).toEqual([{ kind: 'ack', by: 'processed' }, CLOSING])
  await closed
})

// Red when close waits only for handlers: the pool is closed next, and the confirmation of the dead letter is not recorded.
test('close waits until the dead letters of its last runs are published', async () => {
  const gate = Promise.withResolvers<void>()
  const { guard } = setUp(() => {
    throw new FatalError('no such order')
  })
  const port = portOf(guard)
  const [settlement] = await port.run([toDelivery(1)])
  const published = port.publishDeadLetter(settlement as Settlement, () => gate.promise)
  let isClosed = false
  const closed = guard.close().then(() => {
    isClosed = true
  })
  await new Promise((resolve) => setImmediate(resolve))
  expect(isClosed).toBe(false)
  gate.resolve()
  await closed
  expect(await published).toEqual({ kind: 'published' })
})

test('a drain that runs out of time aborts the handler and releases its run', async () => {
  const abort = new AbortController()
  const attempts: number[] = []
  const { guard } = setUp(
    ({ attempt }, { signal }) => {
      attempts.push(attempt)
      if (attempts.length > 1) return
      return new Promise((_, reject) => {
        signal.addEventListener('abort', () => reject(new Error('stopping')))
        abort.abort()
      })
    },
    { retry: { attempts: 1 } },
  )
  const delivery = { ...toDelivery({}), redelivered: true }
  expect(await portOf(guard).run([delivery], { abort: abort.signal })).toEqual([CLOSING])
  await expect.poll(() => guard.process(delivery)).toMatchObject({ by: 'processed' })
  expect(attempts).toEqual([1, 1])
  await guard.close()
})

// Red when only the lease store knows about the reads: close would leave a statement on a pool that is closed next.
test('close waits while a lease store reads the name of the history', async () => {
  const gate = Promise.withResolvers<string>()
  const shift = createShift()
  const leases = memoryLeases(shift.runtime)
  const guard = createGuard(
    {
      consumer: 'billing',
      inbox: changedInbox(memoryInbox(), () => ({ identity: () => gate.promise })),
      leases: {
        ...leases,
        open: async ({ identity }) => {
          void identity?.()
          return leases
        },
      },
      logger: silent,
      runtime: shift.runtime,
    },
    () => undefined,
  )
  expect(await guard.process(toDelivery(1))).toMatchObject({ by: 'processed' })
  let isClosed = false
  const closed = guard.close().then(() => {
    isClosed = true
  })
  await new Promise((resolve) => setImmediate(resolve))
  expect(isClosed).toBe(false)
  gate.resolve('history')
  await closed
})

// Red when close ignores renewals: one still uses a client that is closed next, and has a timer.
test('close waits for a renewal in progress', async () => {
  const gate = Promise.withResolvers<readonly 'held'[]>()
  const clock = new Clock()
  const leases = { ...memoryLeases(clock.runtime), renew: () => gate.promise }
  const guard = createGuard(
    {
      consumer: 'billing',
      leases,
      leaseMs: 30_000,
      onTakeover: 'dead-letter',
      logger: silent,
      runtime: clock.runtime,
    },
    () => clock.advance(10_000),
  )
  expect(await guard.process(toDelivery(1))).toMatchObject({ by: 'processed' })
  let isClosed = false
  const closed = guard.close().then(() => {
    isClosed = true
  })
  await new Promise((resolve) => setImmediate(resolve))
  expect(isClosed).toBe(false)
  gate.resolve(['held'])
  await closed
  expect(clock.timers).toBe(0)
})

// Red before: close() never resolved, so neither did the shutdown of the process.
test('close waits a bounded time for a renewal that the lease store never answers', async () => {
  const clock = new Clock()
  const { runtime } = clock
  const renew = () => new Promise<never>(() => undefined)
  const leases = { ...memoryLeases(runtime), renew }
  const guard = createGuard(
    { consumer: 'billing', leases, onTakeover: 'dead-letter', logger: silent, runtime },
    () => clock.advance(10_000),
  )
  expect(await guard.process(toDelivery(1))).toMatchObject({ by: 'processed' })
  await clock.until(guard.close())
  expect(clock.timers).toBe(0)
})

// Red before: the second call resolved at once, and the process ended before the connections were closed.
test('a second close waits for the first one, and closes nothing again', async () => {
  const gate = Promise.withResolvers<void>()
  let closes = 0
  const inbox = changedInbox(memoryInbox(), () => ({
    close: () => {
      closes += 1
      return gate.promise
    },
  }))
  const guard = createGuard({ consumer: 'billing', inbox, logger: silent }, () => undefined)
  await guard.process(toDelivery(1))
  const ended: string[] = []
  const first = guard.close().then(() => ended.push('first'))
  const second = guard.close().then(() => ended.push('second'))
  await new Promise((resolve) => setImmediate(resolve))
  expect(ended).toEqual([])
  gate.resolve()
  await Promise.all([first, second])
  await guard.close()
  expect(closes).toBe(1)
})

// Red before: close() never resolved, although it bounds every other call.
test('close waits a bounded time for a dead letter whose confirmation is never recorded', async () => {
  const clock = new Clock()
  const { runtime } = clock
  const inbox = changedInbox(memoryInbox(), () => ({ endPublishing: () => new Promise(() => {}) }))
  const guard = createGuard({ consumer: 'billing', inbox, logger: silent, runtime }, () => {
    throw new FatalError('no such order')
  })
  const port = portOf(guard)
  const [settlement] = await port.run([toDelivery(1)])
  void port.publishDeadLetter(settlement as Settlement, async () => undefined)
  let isClosed = false
  const closed = guard.close().then(() => {
    isClosed = true
  })
  for (let seconds = 0; seconds < 60 && !isClosed; seconds += 1) {
    clock.advance(1_000)
    await turn()
  }
  expect(isClosed).toBe(true)
  await closed
})
