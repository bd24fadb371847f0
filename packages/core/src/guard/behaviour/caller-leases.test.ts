import { expect, test, vi } from 'vitest'
import { common, failing, type Given, guardOf, shift } from '../../fixtures/callers.ts'
import { memoryInbox, memoryLeases, toDelivery } from '../../memory/index.ts'
import { StoreUnavailableError } from '../../model/errors.ts'
import type { LeaseSession, LeaseStore } from '../../model/lease-store.ts'
import { createGuard } from '../guard.ts'

/** A process that dies in each of its runs leaves its lease behind. */
function dyingLeases(): { readonly store: LeaseStore; readonly calls: string[] } {
  const store = memoryLeases(common.runtime)
  const calls: string[] = []
  const dying = (session: LeaseSession): LeaseSession => ({
    claim: (claims) => session.claim(claims),
    renew: (held, leaseMs) => session.renew(held, leaseMs),
    complete: (done, rememberMs) => session.complete(done, rememberMs),
    fail: async (failed) => {
      calls.push('fail')
      return failed.map(() => 'held')
    },
    release: async (held) => {
      calls.push('release')
      return held.map(() => 'held')
    },
    bury: async (dead) => {
      calls.push('bury')
      return dead.map(() => 'held')
    },
  })
  const open: LeaseStore['open'] = async (registration) =>
    dying((await store.open?.(registration)) ?? store)
  return { store: { ...store, open }, calls }
}

test('with leases alone an event is never dead, however many of its runs end with their process', async () => {
  const { calls, store: leases } = dyingLeases()
  const guard = guardOf({ leases, onTakeover: 'retry', claimWaitMs: 1 } as Given, failing(25))
  const delivery = toDelivery({ cents: 5 })
  for (let run = 1; run <= 25; run++) {
    expect(await guard.process(delivery)).toMatchObject({ reason: 'failed' })
    expect(await guard.process(delivery)).toMatchObject({ reason: 'in-progress' })
    shift.forward(31_000)
  }
  expect(await guard.process(delivery)).toMatchObject({ by: 'processed' })
  expect(new Set(calls)).toEqual(new Set(['release']))
  await guard.close()
})

// Red before: the caller read that its run had failed, although it goes on.
test('without its lease store an event whose handler runs past its deadline is abandoned', async () => {
  const leases = { ...memoryLeases(), claim: () => Promise.reject(new StoreUnavailableError('no')) }
  const ending = Promise.withResolvers<void>()
  const given = { leases, onTakeover: 'retry', onStoreDown: 'unguarded', deadlineMs: 20 } as Given
  const guard = guardOf(given, () => ending.promise)
  expect(await guard.process(toDelivery({ cents: 5 }))).toMatchObject({
    ...{ kind: 'abandon', reason: 'deadline', cause: 'deadline' },
  })
  ending.resolve()
  await guard.close()
})

test('with an inbox a taken-over event is not counted before its run', async () => {
  const { store: leases } = dyingLeases()
  const inbox = memoryInbox()
  const counts = vi.fn()
  const watched: typeof inbox = {
    ...inbox,
    open: async (registration) => {
      const session = await inbox.open(registration)
      const suspect: typeof session.suspect = (...asked) => {
        counts()
        return session.suspect(...asked)
      }
      return new Proxy(session, {
        get: (target, name) => {
          const found: unknown = name === 'suspect' ? suspect : Reflect.get(target, name)
          return typeof found === 'function' ? found.bind(target) : found
        },
      })
    },
  }
  const guard = guardOf({ inbox: watched, leases }, failing(1))
  const delivery = toDelivery({ cents: 5 })
  expect(await guard.process(delivery)).toMatchObject({ reason: 'failed' })
  shift.forward(31_000)
  expect(await guard.process(delivery)).toMatchObject({ by: 'processed' })
  expect(counts).not.toHaveBeenCalled()
  await guard.close()
})

test('with an inbox the lease of a dead process keeps no caller waiting', async () => {
  const { store: leases } = dyingLeases()
  const guard = guardOf({ inbox: memoryInbox(), leases, claimWaitMs: 1 }, failing(1))
  const delivery = toDelivery({ cents: 5 })
  expect(await guard.process(delivery)).toMatchObject({ reason: 'failed' })
  expect(await guard.process(delivery)).toMatchObject({ by: 'processed', result: 'charged' })
  expect(await guard.process(delivery)).toMatchObject({ by: 'duplicate', result: 'charged' })
  await guard.close()
})

test('with an inbox and leases an event runs once while another process runs it', async () => {
  const stores = { inbox: memoryInbox(), leases: memoryLeases(), claimWaitMs: 1 }
  const running = Promise.withResolvers<void>()
  const ending = Promise.withResolvers<string>()
  const handler = vi.fn(() => {
    running.resolve()
    return ending.promise
  })
  const [one, other] = [guardOf(stores, handler), guardOf(stores, handler)]
  const delivery = toDelivery({ cents: 5 })
  const first = one.process(delivery)
  await running.promise
  expect(await other.process(delivery)).toMatchObject({
    reason: 'in-progress',
    cause: 'held-by-row',
  })
  ending.resolve('charged')
  expect(await first).toMatchObject({ by: 'processed' })
  expect(await other.process(delivery)).toMatchObject({ by: 'duplicate', result: 'charged' })
  expect(handler).toHaveBeenCalledTimes(1)
  await Promise.all([one.close(), other.close()])
})

test('a consumer leaves an event to the process that holds its lease', async () => {
  const stores = { inbox: memoryInbox(), leases: memoryLeases(), claimWaitMs: 1 }
  const running = Promise.withResolvers<void>()
  const ending = Promise.withResolvers<void>()
  const handler = (): Promise<void> => {
    running.resolve()
    return ending.promise
  }
  const [one, other] = [
    createGuard({ ...common, ...stores }, handler),
    createGuard({ ...common, ...stores }, handler),
  ]
  const delivery = toDelivery({ cents: 5 })
  const first = one.process(delivery)
  await running.promise
  expect(await other.process(delivery)).toMatchObject({ cause: 'held-by-lease' })
  ending.resolve()
  await first
  await Promise.all([one.close(), other.close()])
})
