import { expect, test } from 'vitest'
import { systemRuntime } from '../concurrency/system-runtime.ts'
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
