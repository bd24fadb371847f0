import { expect, test } from 'vitest'
import { silent } from '../../fixtures/inbox.ts'
import { createShift } from '../../fixtures/shift.ts'
import { memoryInbox, memoryLeases, toDelivery } from '../../memory/index.ts'
import type { EventId } from '../../model/brands.ts'
import { StoreUnavailableError } from '../../model/errors.ts'
import type { LeaseRegistration, LeaseStore } from '../../model/lease-store.ts'
import type { LeaseGuardOptions } from '../../options/options.ts'
import { createGuard } from '../guard.ts'

const down = (): Promise<never> => Promise.reject(new StoreUnavailableError('down'))
const deadStore: LeaseStore = {
  claim: down,
  renew: down,
  complete: down,
  fail: down,
  release: down,
  bury: down,
}

function leased(
  handler: () => void | Promise<void>,
  options: Partial<LeaseGuardOptions<unknown>> = {},
) {
  const shift = createShift()
  const leases = memoryLeases(shift.runtime)
  const guard = createGuard(
    {
      consumer: 'mailing',
      leases,
      onTakeover: 'dead-letter',
      logger: silent,
      runtime: shift.runtime,
      ...options,
    },
    async () => {
      await handler()
      return 'sent'
    },
  )
  return { guard, leases, shift }
}

test('without an inbox an event runs once and its result is replayed', async () => {
  let runs = 0
  const { guard } = leased(() => {
    runs += 1
  })
  const delivery = toDelivery({})
  expect(await guard.process(delivery)).toMatchObject({ by: 'processed', result: 'sent' })
  expect(await guard.process(delivery)).toMatchObject({ by: 'duplicate', result: 'sent' })
  expect(runs).toBe(1)
  await guard.close()
})

test('without an inbox a failed event waits for its back-off and runs again', async () => {
  let runs = 0
  const { guard, shift } = leased(() => {
    runs += 1
    if (runs === 1) throw new Error('no')
  })
  const delivery = toDelivery({})
  expect(await guard.process(delivery)).toMatchObject({ kind: 'defer', reason: 'failed' })
  expect(await guard.process(delivery)).toMatchObject({ kind: 'defer', reason: 'not-due' })
  shift.forward(60_000)
  expect(await guard.process(delivery)).toMatchObject({ by: 'processed' })
  await guard.close()
})

test('a takeover follows the policy: dead-letter, retry or the answer of the user function', async () => {
  const policies = [
    { onTakeover: 'dead-letter', expected: { kind: 'dead-letter', reason: 'takeover' } },
    { onTakeover: 'retry', expected: { kind: 'ack', by: 'processed', result: 'sent' } },
    {
      onTakeover: () => ({ kind: 'done', result: 'was sent' }) as const,
      expected: { kind: 'ack', by: 'processed', result: 'was sent' },
    },
  ] as const
  for (const { onTakeover, expected } of policies) {
    const shift = createShift()
    const leases = memoryLeases(shift.runtime)
    const common = { consumer: 'mailing', leases, logger: silent, runtime: shift.runtime }
    const hangs = createGuard(
      { ...common, onTakeover: 'retry' },
      () => new Promise(() => undefined),
    )
    const delivery = toDelivery({})
    void hangs.process(delivery)
    const next = createGuard({ ...common, onTakeover }, () => 'sent')
    await expect
      .poll(() => next.process(delivery))
      .toMatchObject({ kind: 'defer', reason: 'in-progress' })
    shift.forward(40_000)
    expect(await next.process(delivery)).toEqual(expected)
  }
})

test('an undecided takeover is followed by another takeover, never by a retry', async () => {
  let runs = 0
  let asked = 0
  const shift = createShift()
  const leases = memoryLeases(shift.runtime)
  const common = { consumer: 'mailing', leases, logger: silent, runtime: shift.runtime }
  const hangs = createGuard({ ...common, onTakeover: 'retry' }, () => new Promise(() => undefined))
  const delivery = toDelivery({})
  void hangs.process(delivery)
  const onTakeover = () => {
    asked += 1
    if (asked === 1) throw new Error('the provider does not answer')
    return { kind: 'done', result: 'found' } as const
  }
  const next = createGuard({ ...common, onTakeover }, () => {
    runs += 1
  })
  await expect.poll(() => next.process(delivery)).toMatchObject({ reason: 'in-progress' })
  shift.forward(60_000)
  expect(await next.process(delivery)).toMatchObject({ kind: 'defer', reason: 'failed' })
  shift.forward(60_000)
  expect(await next.process(delivery)).toMatchObject({ by: 'processed', result: 'found' })
  expect([runs, asked]).toEqual([0, 2])
})

test('with an inbox, a lease store that is down costs only the fast path', async () => {
  let runs = 0
  const guard = createGuard(
    { consumer: 'billing', inbox: memoryInbox(), leases: deadStore, logger: silent },
    () => {
      runs += 1
    },
  )
  const delivery = toDelivery({})
  expect(await guard.process(delivery)).toMatchObject({ by: 'processed' })
  expect(await guard.process(delivery)).toMatchObject({ by: 'duplicate' })
  expect(runs).toBe(1)
  await guard.close()
})

test('without an inbox, a lease store that is down defers the event, or the event runs unguarded by policy', async () => {
  for (const [onStoreDown, expected] of [
    ['wait', { kind: 'defer', reason: 'store-down' }],
    ['unguarded', { kind: 'ack', by: 'unguarded' }],
  ] as const) {
    const { guard } = leased(() => undefined, { leases: deadStore, onStoreDown })
    expect(await guard.process(toDelivery({}))).toMatchObject(expected)
    await guard.close()
  }
})

test('an event unknown to the lease store is looked up in the inbox; without an inbox it is deferred', async () => {
  let runs = 0
  const unsure: LeaseStore = {
    ...memoryLeases(),
    claim: async (claims) => claims.map(() => ({ kind: 'unknown' })),
  }
  const run = (): void => {
    runs += 1
  }
  const common = { consumer: 'billing', leases: unsure, logger: silent }
  const beside = createGuard({ ...common, inbox: memoryInbox() }, run)
  const delivery = toDelivery({})
  expect(await beside.process(delivery)).toMatchObject({ by: 'processed' })
  expect(await beside.process(delivery)).toMatchObject({ by: 'duplicate' })
  expect(runs).toBe(1)
  const alone = createGuard({ ...common, onTakeover: 'retry' }, run)
  expect(await alone.process(delivery)).toMatchObject({ kind: 'defer', reason: 'store-down' })
  expect(runs).toBe(1)
  await Promise.all([beside.close(), alone.close()])
})

test('a lease store can ask which events are done in the inbox', async () => {
  const inbox = memoryInbox()
  const leases = memoryLeases()
  const asked: unknown[] = []
  let isDone: LeaseRegistration['isDone']
  const store: LeaseStore = {
    ...leases,
    open: async (registration) => {
      isDone = registration.isDone
      return {
        ...leases,
        claim: (claims) => {
          asked.push(...claims.map(({ id }) => id))
          return leases.claim(claims)
        },
      }
    },
  }
  const guard = createGuard(
    { consumer: 'billing', inbox, leases: store, logger: silent },
    () => undefined,
  )
  await guard.process(toDelivery({}))
  const [id] = asked as EventId[]
  const other = '00000000-0000-4000-8000-000000000000' as EventId
  expect(await isDone?.([other, id ?? other])).toEqual([false, true])
  await guard.close()
})

test('a lease store is told whether there is an inbox, and the identity of its history', async () => {
  const told: (string | undefined)[] = []
  const leases = memoryLeases()
  const store: LeaseStore = {
    ...leases,
    claim: () => Promise.reject(new Error('the session of the guard is to be used')),
    open: async ({ consumer, identity }) => {
      told.push(consumer, await identity?.())
      return leases
    },
  }
  const inbox = memoryInbox()
  const common = { consumer: 'billing', leases: store, logger: silent }
  const beside = createGuard({ ...common, inbox }, () => undefined)
  expect(await beside.process(toDelivery({}))).toMatchObject({ by: 'processed' })
  const alone = createGuard({ ...common, onTakeover: 'retry' }, () => undefined)
  expect(await alone.process(toDelivery({}))).toMatchObject({ by: 'processed' })
  expect(told).toEqual(['billing', expect.stringMatching(/./), 'billing', undefined])
  await Promise.all([beside.close(), alone.close()])
})

test('acceptance A2: the lease store gets the completion only after the commit', async () => {
  const order: string[] = []
  const leases = memoryLeases()
  const watched: LeaseStore = {
    ...leases,
    claim: (claims) => leases.claim(claims),
    complete: (done, rememberMs) => {
      order.push('complete')
      return leases.complete(done, rememberMs)
    },
  }
  const inbox = memoryInbox()
  const guard = createGuard(
    {
      consumer: 'billing',
      leases: watched,
      logger: silent,
      inbox: {
        open: async (registration) => {
          const session = await inbox.open(registration)
          const begin = session.begin.bind(session)
          return Object.assign(Object.create(session), {
            concurrency: session.concurrency,
            secret: session.secret,
            begin: async (request: Parameters<typeof begin>[0]) => {
              const begun = await begin(request)
              if (begun.kind !== 'open') return begun
              const { transaction } = begun
              const commit = transaction.commit.bind(transaction)
              transaction.commit = async (work) => {
                const answer = await commit(work)
                order.push('commit')
                return answer
              }
              return begun
            },
          })
        },
      },
    },
    () => undefined,
  )
  await guard.process(toDelivery({}))
  expect(order).toEqual(['commit', 'complete'])
  await guard.close()
})

test('with an inbox, the row decides about a conflict in the lease store', async () => {
  const conflicting: LeaseStore = {
    ...memoryLeases(),
    claim: async (claims) => claims.map(() => ({ kind: 'conflict' })),
  }
  const common = { consumer: 'billing', logger: silent, inbox: memoryInbox() }
  const guard = createGuard({ ...common, leases: conflicting }, () => undefined)
  const headers = { 'idempotency-key': 'k-1' }
  const delivery = toDelivery({ amount: 1 }, { headers })
  expect(await guard.process(delivery)).toMatchObject({ kind: 'ack', by: 'processed' })
  expect(await guard.process(delivery)).toMatchObject({ kind: 'ack', by: 'duplicate' })
  const other = toDelivery({ amount: 2 }, { headers })
  const refused = { kind: 'dead-letter', reason: 'fingerprint-mismatch' }
  expect(await guard.process(other)).toMatchObject(refused)
  await guard.close()
})
