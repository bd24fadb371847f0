import { setImmediate as turn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { createAloneLock } from '../../concurrency/alone-lock.ts'
import { Clock } from '../../fixtures/clock.ts'
import { changedInbox, silent } from '../../fixtures/inbox.ts'
import { never } from '../../fixtures/never.ts'
import { memoryInbox, memoryLeases, toDelivery } from '../../memory/index.ts'
import { FatalError, StoreUnavailableError } from '../../model/errors.ts'
import { type Guard, portOf } from '../../model/guard-port.ts'
import type { Inbox } from '../../model/inbox.ts'
import type { LeaseStore } from '../../model/lease-store.ts'
import { createGuard } from '../guard.ts'

const DEADLINE_MS = 1_000

interface Given {
  readonly inbox?: Inbox<undefined>
  readonly leases?: LeaseStore
}

function setUp({ inbox = memoryInbox(), leases }: Given, handler: () => unknown = () => undefined) {
  const clock = new Clock()
  // Runs that never end would hold the lock of the process.
  const runtime = { ...clock.runtime, alone: createAloneLock() }
  const warned: string[] = []
  const fields: object[] = []
  const warn = (said: { err?: { message: string } }, message: string): void => {
    fields.push(said)
    warned.push(`${message}: ${said.err?.message}`)
  }
  const guard = createGuard(
    {
      ...{ consumer: 'billing', inbox, leases, deadlineMs: DEADLINE_MS },
      ...{ logger: { ...silent, warn }, runtime },
    },
    handler as () => undefined,
  )
  return { clock, fields, guard, warned }
}

/** How long a close takes on the clock, ms; undefined if it takes longer than a minute. */
async function closing(guard: Guard, clock: Clock): Promise<number | undefined> {
  const startedAtMs = clock.runtime.monotonic()
  let tookMs: number | undefined
  void guard.close().then(() => {
    tookMs = clock.runtime.monotonic() - startedAtMs
  })
  for (let n = 0; n < 600 && tookMs === undefined; n += 1) {
    await turn()
    if (tookMs === undefined) clock.advance(100)
  }
  return tookMs
}

test('close waits for a store that records the end of a run after its deadline', async () => {
  const inbox = changedInbox(memoryInbox(), (session) => ({
    begin: async (request) => {
      const begun = await session.begin(request)
      if (begun.kind !== 'open') return begun
      const { transaction } = begun
      const recording = transaction.rollbackAndFail.bind(transaction)
      return Object.assign(begun, {
        transaction: Object.assign(transaction, {
          rollbackAndFail: (async (failures) => {
            await new Promise<void>((resolve) => clock.runtime.setTimer(resolve, 1_000))
            return recording(failures)
          }) as typeof recording,
        }),
      })
    },
  }))
  const { clock, guard, warned } = setUp({ inbox }, never)
  const running = guard.process(toDelivery(1))
  await turn()
  expect(await closing(guard, clock)).toBeGreaterThanOrEqual(DEADLINE_MS + 1_000)
  expect(await running).toMatchObject({ kind: 'defer', reason: 'failed' })
  expect(warned).toEqual([expect.stringContaining('handler failed, the event is retried')])
})

test.each([
  ['with leases', 1],
  ['without leases', 0],
])(
  'a close that gives up on a run closes the connections, and tells the lease store nothing more, %s',
  async (_, timers) => {
    let closes = 0
    const inbox = changedInbox(memoryInbox(), (session) => ({
      begin: (request) =>
        closes === 0 && request.claim.kind === 'fresh' ? session.begin(request) : never(),
      classify: never,
      suspect: never,
      close: async () => {
        closes += 1
      },
    }))
    const release = () => Promise.reject(new StoreUnavailableError('down'))
    const complete = release
    const leases = { ...memoryLeases(), release, complete }
    const { clock, fields, guard, warned } = setUp(timers === 0 ? { inbox } : { inbox, leases })
    await guard.process(toDelivery(1))
    // A suspect is counted first, which never ends.
    void guard.process({ ...toDelivery(2), redelivered: true })
    await turn()
    expect(await closing(guard, clock)).toBe(DEADLINE_MS + 2_000)
    await turn()
    expect(warned.at(-1)).toMatch(/^the guard was closed while runs had not ended/)
    expect(fields.at(-1)).toEqual({ deadlineMs: DEADLINE_MS, runs: 1 })
    // The timer that renews the lease of the run is left.
    expect([closes, clock.timers]).toEqual([1, timers])
  },
)

test('close tells the lease store once more what it has not answered', async () => {
  let told = 0
  const memory = memoryLeases()
  const complete: LeaseStore['complete'] = (done, rememberMs) => {
    told += 1
    return told === 1
      ? Promise.reject(new StoreUnavailableError('down'))
      : memory.complete(done, rememberMs)
  }
  const { clock, guard } = setUp({ leases: { ...memory, complete } })
  await guard.process(toDelivery(1))
  expect(told).toBe(1)
  expect(await closing(guard, clock)).toBe(0)
  expect(told).toBe(2)
})

test('close waits five seconds at most for a lease store that never answers', async () => {
  let told = 0
  const complete: LeaseStore['complete'] = () => {
    told += 1
    return told === 1 ? Promise.reject(new StoreUnavailableError('down')) : never()
  }
  const { clock, guard } = setUp({ leases: { ...memoryLeases(), complete } })
  await guard.process(toDelivery(1))
  expect(await closing(guard, clock)).toBe(5_000)
})

test('close waits five seconds at most for connections that do not close', async () => {
  const { clock, guard } = setUp({ inbox: changedInbox(memoryInbox(), () => ({ close: never })) })
  await guard.process(toDelivery(1))
  expect(await closing(guard, clock)).toBe(5_000)
})

test('close waits for dead letters that the poller is publishing', async () => {
  const place = Promise.withResolvers<void>()
  const inbox = memoryInbox()
  const { clock, guard } = setUp({ inbox }, () => {
    throw new FatalError('no such order')
  })
  const port = portOf(guard)
  let published = 0
  port.registerPublisher({ broker: 'memory', queue: 'memory' }, () => {
    published += 1
    return place.promise
  })
  await port.run([toDelivery(1)])
  // The dead letters of deliveries are left to their settlements.
  for (const { ref } of inbox.deadLetters()) inbox.replay(ref)
  for (let n = 0; n < 100 && published === 0; n += 1) {
    clock.advance(1_000)
    for (let turns = 0; turns < 5; turns += 1) await turn()
  }
  expect(published).toBe(1)
  let isClosed = false
  const closed = guard.close().then(() => {
    isClosed = true
  })
  // Red when close gives up after five seconds: the call has ten, and then the guard still writes to the closed pool.
  for (let seconds = 0; seconds < 9; seconds += 1) {
    for (let n = 0; n < 5; n += 1) await turn()
    clock.advance(1_000)
  }
  expect(isClosed).toBe(false)
  place.resolve()
  await closed
})

test('connections that open after close gave up are closed', async () => {
  const opening = Promise.withResolvers<void>()
  let closes = 0
  const memory = changedInbox(memoryInbox(), () => ({
    close: async () => {
      closes += 1
    },
  }))
  const inbox: Inbox<undefined> = {
    open: async (registration) => {
      await opening.promise
      return memory.open(registration)
    },
  }
  const { clock, guard } = setUp({ inbox })
  const running = guard.process(toDelivery(1))
  expect(await closing(guard, clock)).toBe(DEADLINE_MS + 2_000)
  expect(closes).toBe(0)
  opening.resolve()
  expect(await running).toMatchObject({ kind: 'abandon', reason: 'closing' })
  expect(closes).toBe(1)
})

test('connections that cannot be closed are logged, and background work on demand asks nothing more', async () => {
  let searches = 0
  const inbox = changedInbox(memoryInbox(), (session) => ({
    close: () => Promise.reject(new Error('broken')),
    due: (limit) => {
      searches += 1
      return session.due(limit)
    },
  }))
  const { clock, guard, warned } = setUp({ inbox })
  const doDue = portOf(guard).onDemand()
  await guard.process(toDelivery(1))
  await guard.close()
  expect(warned).toEqual(['the connections of the guard were not closed: broken'])
  clock.advance(10_000)
  await doDue()
  expect(searches).toBe(0)
})
