import type { LeaseStore } from '@onceward/core'
import { memoryLeases } from '@onceward/core/memory'
import { type Runtime, systemRuntime } from '@onceward/core/ports'
import { expect, test, vi } from 'vitest'
import { kindOf, requestOf, type Shown, shown, silent } from './fixtures/charges.ts'
import { createHttpGuard, type HttpGuard } from './http-guard.ts'
import type { LeaseHttpOptions } from './options.ts'

interface Kit {
  readonly guard: HttpGuard
  readonly handler: ReturnType<typeof vi.fn>
  /** The answer to the key after a process died in the run of its first request. */
  readonly afterDeath: () => Promise<Shown>
}

/** A guard whose first run leaves its lease behind, as a process that dies does. */
function setUp(onTakeover: LeaseHttpOptions<unknown>['onTakeover']): Kit {
  let aheadMs = 0
  const runtime: Runtime = {
    ...systemRuntime,
    monotonic: () => systemRuntime.monotonic() + aheadMs,
  }
  const store = memoryLeases(runtime)
  let isDead = false
  const leases: LeaseStore = {
    ...store,
    release: async (held) => {
      if (isDead) return store.release(held)
      isDead = true
      return held.map(() => 'held')
    },
  }
  const handler = vi.fn().mockRejectedValueOnce(new Error('died')).mockReturnValue({ status: 201 })
  const options = { consumer: 'mails', leases, onTakeover, runtime, tenant: 'none' } as const
  const guard = createHttpGuard({ ...options, logger: silent, claimWaitMs: 1 }, handler)
  const send = async (): Promise<Shown> => shown(await guard.fetch(requestOf({ key: 'k' })))
  const afterDeath = async (): Promise<Shown> => {
    expect((await send()).status).toBe(500)
    expect(kindOf(await send())).toBe('in-flight')
    aheadMs += 31_000
    return send()
  }
  return { guard, handler, afterDeath }
}

test('a takeover by retry runs the handler', async () => {
  const { afterDeath, guard, handler } = setUp('retry')
  expect((await afterDeath()).status).toBe(201)
  expect(handler).toHaveBeenCalledTimes(2)
  await guard.close()
})

test('a takeover that a person must decide is answered 500 and never runs', async () => {
  const { afterDeath, guard, handler } = setUp('dead-letter')
  for (const answer of [
    await afterDeath(),
    await shown(await guard.fetch(requestOf({ key: 'k' }))),
  ]) {
    expect([answer.status, kindOf(answer)]).toEqual([500, 'outcome-unknown'])
  }
  expect(handler).toHaveBeenCalledTimes(1)
  await guard.close()
})

test('a takeover by a function that found the effect gives its answer, and retries get it', async () => {
  const onTakeover = vi.fn((event: { readonly key: string }) => ({
    kind: 'done' as const,
    answer: { status: 201, body: { found: event.key } },
  }))
  const { afterDeath, guard, handler } = setUp(onTakeover)
  const answer = await afterDeath()
  expect(answer).toMatchObject({ status: 201, text: '{"found":"k"}' })
  const retry = await shown(await guard.fetch(requestOf({ key: 'k' })))
  expect(retry).toMatchObject({
    sha256: answer.sha256,
    headers: { 'idempotency-replayed': 'true' },
  })
  expect([handler.mock.calls.length, onTakeover.mock.calls.length]).toEqual([1, 1])
  await guard.close()
})

test('a takeover by a function that answers nonsense is answered 500 and keeps the key', async () => {
  const { afterDeath, guard, handler } = setUp((() => 'yes') as never)
  expect(await afterDeath()).toMatchObject({ status: 500 })
  expect(kindOf(await shown(await guard.fetch(requestOf({ key: 'k' }))))).toBe('in-flight')
  expect(handler).toHaveBeenCalledTimes(1)
  await guard.close()
})

// Red when the answer says to come again at once: a client would ask until the lease ends.
test.each([30_000, 90_000])(
  'a key whose lease of %i ms another process holds is answered 409, and Retry-After is what is left of the lease',
  async (leaseMs) => {
    let nowMs = 0
    const runtime: Runtime = { ...systemRuntime, monotonic: () => nowMs, random: () => 0 }
    const gate = Promise.withResolvers<undefined>()
    const options = {
      consumer: 'mails',
      leases: memoryLeases(runtime),
      onTakeover: 'retry',
      tenant: 'none',
      runtime,
      logger: silent,
      claimWaitMs: 1,
      leaseMs,
    } as const
    const started = Promise.withResolvers<void>()
    const one = createHttpGuard(options, () => {
      started.resolve()
      return gate.promise
    })
    const other = createHttpGuard(options, () => undefined)
    const first = one.fetch(requestOf({ key: 'k' }))
    await started.promise
    nowMs += 4_000
    const answer = await shown(await other.fetch(requestOf({ key: 'k' })))
    expect([answer.status, kindOf(answer)]).toEqual([409, 'in-flight'])
    expect(answer.headers['retry-after']).toBe(String((leaseMs - 4_000) / 1_000))
    gate.resolve(undefined)
    expect((await first).status).toBe(204)
    await Promise.all([one.close(), other.close()])
  },
)
