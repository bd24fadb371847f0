import { expect, test } from 'vitest'
import { newEvent, silent } from '../../fixtures/inbox.ts'
import { eventIdOf } from '../../identity/event-id.ts'
import { memoryInbox, memoryLeases, toDelivery } from '../../memory/index.ts'
import type { EventId } from '../../model/brands.ts'
import { StoreUnavailableError } from '../../model/errors.ts'
import { portOf } from '../../model/guard-port.ts'
import type { Inbox, InboxSession } from '../../model/inbox.ts'
import type { LeaseRegistration, LeaseStore } from '../../model/lease-store.ts'
import type { GuardOptions } from '../../options/options.ts'
import { createGuard } from '../guard.ts'
import { createStoreOpener } from '../open-stores.ts'
import { resolveOptions } from '../resolve-options.ts'

const call = { kind: 'single', handler: () => undefined } as const
const common = { consumer: 'billing', logger: silent }

/** An inbox in memory whose sessions differ as the test says. */
function inboxWith(over: (session: InboxSession<undefined>) => Partial<InboxSession<undefined>>) {
  const memory = memoryInbox()
  const registrations: unknown[] = []
  const inbox: Inbox<undefined> = {
    open: async (registration) => {
      registrations.push(registration)
      const session = await memory.open(registration)
      return Object.assign(session, over(session))
    },
  }
  return { inbox, memory, registrations }
}

/** Leases that keep what the guard tells them at the opening. */
function leasesThatHear(open: (registration: LeaseRegistration) => Promise<void> = async () => {}) {
  const memory = memoryLeases()
  const heard: LeaseRegistration[] = []
  const leases: LeaseStore = Object.assign(Object.create(memory), {
    open: async (registration: LeaseRegistration) => {
      heard.push(registration)
      await open(registration)
      return memory
    },
  })
  return { heard, leases }
}

test('an inbox learns the limits of its guard, and whether its user chose the concurrency', async () => {
  const { inbox, registrations } = inboxWith(() => ({}))
  const openWith = (over: object) =>
    createStoreOpener(resolveOptions({ ...common, inbox, ...over }), call)()
  await openWith({ retry: { attempts: 3 }, dedupWindowMs: 60_000, concurrency: 2 })
  await openWith({})
  expect(registrations).toMatchObject([
    {
      ...{ maxAttempts: 3, dedupWindowMs: 60_000 },
      ...{ concurrency: 2, concurrencyChosen: true },
    },
    { ...{ maxAttempts: 10, concurrency: 8 }, concurrencyChosen: false },
  ])
})

test('no more handlers run than the session of the inbox can carry', async () => {
  const { inbox } = inboxWith(() => ({ concurrency: 1 }))
  let [running, most] = [0, 0]
  const guard = createGuard({ ...common, inbox, concurrency: 4 }, async () => {
    running += 1
    most = Math.max(most, running)
    await new Promise((resolve) => setImmediate(resolve))
    running -= 1
  })
  const deliveries = ['a', 'b', 'c'].map((key) => toDelivery(key, { messageId: key }))
  await Promise.all(deliveries.map((delivery) => guard.process(delivery)))
  expect(most).toBe(1)
  await guard.close()
})

// Red when a dead event, or one that waits, counts as done: Redis would be believed about it.
test('a lease store learns of done events alone that the inbox has their effect', async () => {
  const { inbox, memory } = inboxWith(() => ({}))
  const { heard, leases } = leasesThatHear()
  const retry = { attempts: 1 }
  const guard = createGuard({ ...common, inbox, leases, retry }, ({ payload }) => {
    if (payload === 'dead') throw new Error('no')
  })
  await guard.process(toDelivery('done', { messageId: 'done' }))
  await guard.process(toDelivery('dead', { messageId: 'dead' }))
  const [letter] = memory.deadLetters()
  const ids = [eventIdOf('billing', undefined, 'done'), letter?.ref.id as EventId, newEvent().id]
  expect(await heard[0]?.isDone?.(ids)).toEqual([true, false, false])
  await guard.close()
})

// Red when the pool may be closed while the lease store still reads from it.
test.each(['identity', 'classify'] as const)(
  'close() waits for a read of the inbox by the lease store: %s',
  async (name) => {
    const answer = Promise.withResolvers<never>()
    const { inbox } = inboxWith(() => ({ [name]: () => answer.promise }))
    const { heard, leases } = leasesThatHear()
    const guard = createGuard({ ...common, inbox, leases }, () => undefined)
    await portOf(guard).open()
    const [registration] = heard
    const reading = name === 'identity' ? registration?.identity?.() : registration?.isDone?.([])
    let isClosed = false
    const closing = guard.close().then(() => {
      isClosed = true
    })
    for (let turn = 0; turn < 20; turn += 1) await new Promise((go) => setImmediate(go))
    expect(isClosed).toBe(false)
    answer.resolve([] as never)
    await Promise.all([reading, closing])
  },
)

test('the error of a lease store that cannot be opened is told, also if the session cannot be closed', async () => {
  const { inbox } = inboxWith(() => ({ close: () => Promise.reject(new Error('not that')) }))
  const { leases } = leasesThatHear(() => Promise.reject(new StoreUnavailableError('down')))
  const guard = createGuard({ ...common, inbox, leases }, () => undefined)
  await expect(portOf(guard).open()).rejects.toThrow('down')
  await guard.close()
})

test('a lease store that no event waits for may be down when the guard opens', async () => {
  const { leases } = leasesThatHear(() => Promise.reject(new StoreUnavailableError('down')))
  const given = { onTakeover: 'retry', onStoreDown: 'unguarded' } as const
  const guard = createGuard(
    { ...common, leases, ...given } as GuardOptions<unknown>,
    () => undefined,
  )
  await portOf(guard).open()
  expect(await guard.process(toDelivery({}))).toMatchObject({ kind: 'ack' })
  await guard.close()
})
