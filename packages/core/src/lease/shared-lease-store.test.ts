import { expect, test } from 'vitest'
import { systemRuntime } from '../concurrency/system-runtime.ts'
import { Clock } from '../fixtures/clock.ts'
import { silent } from '../fixtures/inbox.ts'
import { createGuard } from '../guard/guard.ts'
import { memoryInbox, memoryLeases, toDelivery } from '../memory/index.ts'
import type { EventId, Fingerprint, OwnerToken } from '../model/brands.ts'
import { StoreUnavailableError } from '../model/errors.ts'
import type { Held, LeaseStore } from '../model/lease-store.ts'
import { type Sharing, sharedLeaseStore } from './shared-lease-store.ts'

const SHARING: Sharing = { logger: silent, runtime: systemRuntime, releasesUnanswered: true }

const held = (name: string): Held => ({ id: name as EventId, ownerToken: name as OwnerToken })

async function claimed(store: LeaseStore, ...names: readonly string[]): Promise<readonly Held[]> {
  const all = names.map(held)
  await store.claim(
    all.map((one) => ({ ...one, fingerprint: 257n as Fingerprint, leaseMs: 60_000 })),
  )
  return all
}

test('calls of one moment are combined, and each caller gets its own answers', async () => {
  const store = memoryLeases()
  const calls: number[] = []
  const gathered = sharedLeaseStore(
    {
      ...store,
      complete: (done, rememberMs) => {
        calls.push(done.length)
        return store.complete(done, rememberMs)
      },
    },
    SHARING,
  )
  const [a, b, c] = (await claimed(store, 'a', 'b', 'c')) as [Held, Held, Held]
  const answers = await Promise.all([
    gathered.complete([a, held('stranger')], 1_000),
    gathered.complete([], 1_000),
    gathered.complete([b], 1_000),
    gathered.complete([c], 2_000),
  ])
  expect(answers).toEqual([['held', 'lost'], [], ['held'], ['held']])
  expect(calls).toEqual([3, 1])
  expect(await gathered.complete([a], 1_000)).toEqual(['lost'])
})

test('every method reaches the store', async () => {
  const store = memoryLeases()
  const gathered = sharedLeaseStore(store, SHARING)
  const [a, b, c] = (await claimed(store, 'a', 'b', 'c')) as [Held, Held, Held]
  expect(await gathered.renew([a], 1_000)).toEqual(['held'])
  expect(await gathered.fail([{ ...a, delayMs: 5_000 }])).toEqual(['held'])
  expect(await gathered.release([b])).toEqual(['held'])
  expect(await gathered.bury([{ ...c, reason: 'fatal' }], 5_000)).toEqual(['held'])
  const claims = [a, b, c].map((one) => ({
    ...one,
    fingerprint: 257n as Fingerprint,
    leaseMs: 1_000,
  }))
  const kinds = (await gathered.claim(claims)).map(({ kind }) => kind)
  expect(kinds).toEqual(['not-due', 'acquired', 'dead'])
})

test('a failure rejects for all callers that waited for it, and for no later caller', async () => {
  const store = memoryLeases()
  let isDown = true
  const gathered = sharedLeaseStore(
    {
      ...store,
      release: (all) =>
        isDown ? Promise.reject(new StoreUnavailableError('down')) : store.release(all),
    },
    SHARING,
  )
  const [a, b] = (await claimed(store, 'a', 'b')) as [Held, Held]
  const failed = await Promise.allSettled([gathered.release([a]), gathered.release([b])])
  expect(failed.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  isDown = false
  expect(await gathered.release([a, b])).toEqual(['held', 'held'])
})

test('a batch that shares a transaction completes its claims in one call', async () => {
  const store = memoryLeases()
  const calls: number[] = []
  const leases: LeaseStore = {
    ...store,
    complete: (done, rememberMs) => {
      calls.push(done.length)
      return store.complete(done, rememberMs)
    },
  }
  const guard = createGuard(
    {
      ...{ consumer: 'billing', leases, inbox: memoryInbox(), logger: silent },
      transaction: 'batch',
    },
    () => undefined,
  )
  await guard.processBatch(Array.from({ length: 50 }, () => toDelivery({})))
  expect(calls).toEqual([50])
  await guard.close()
})

/** A lease store whose calls fail with `error` as long as it is set, on a clock that the test moves. */
function failing(sharing: Partial<Sharing> = {}) {
  const clock = new Clock()
  const memory = memoryLeases(clock.runtime)
  const state: { error: Error | undefined; calls: string[] } = { error: undefined, calls: [] }
  const store: LeaseStore = {
    ...memory,
    claim: (claims) => (state.error ? Promise.reject(state.error) : memory.claim(claims)),
    release: async (all) => {
      state.calls.push(...all.map(({ id }) => id))
      if (state.error !== undefined) throw state.error
      return memory.release(all)
    },
  }
  const shared = sharedLeaseStore(store, { ...SHARING, runtime: clock.runtime, ...sharing })
  /** What the store was told in the next half minute. */
  const later = async (): Promise<readonly string[]> => {
    for (let n = 0; n < 60; n += 1) {
      clock.advance(500)
      await new Promise((resolve) => setImmediate(resolve))
    }
    return state.calls.splice(0)
  }
  return { clock, memory, shared, state, later }
}

const down = new StoreUnavailableError('down')

test('an end without an answer is sent until the store has answered, and then no more', async () => {
  const { clock, later, memory, shared, state } = failing()
  const [a] = (await claimed(memory, 'a')) as [Held]
  state.error = down
  await expect(shared.release([a])).rejects.toThrow(down)
  expect((await later()).length).toBeGreaterThan(3)
  state.error = undefined
  expect(await later()).toEqual(['a'])
  expect(await later()).toEqual([])
  expect(clock.timers).toBe(0)
})

test('an end that fails otherwise than by an outage is not sent again', async () => {
  const { later, memory, shared, state } = failing()
  const [a] = (await claimed(memory, 'a')) as [Held]
  state.error = new Error('a defect')
  await expect(shared.release([a])).rejects.toThrow('a defect')
  expect(await later()).toEqual(['a'])
})

test('closing sends an end without an answer once more', async () => {
  const { later, memory, shared, state } = failing()
  const [a] = (await claimed(memory, 'a')) as [Held]
  state.error = down
  await expect(shared.release([a])).rejects.toThrow(down)
  await shared.close()
  expect(await later()).toEqual(['a', 'a'])
})

test.each([
  [true, ['a']],
  [false, []],
])('a claim without an answer is released later: %s', async (releasesUnanswered, told) => {
  const { later, shared, state } = failing({ releasesUnanswered })
  state.error = down
  const claim = { ...held('a'), fingerprint: 257n as Fingerprint, leaseMs: 1_000 }
  await expect(shared.claim([claim])).rejects.toThrow(down)
  state.error = undefined
  expect(await later()).toEqual(told)
})
