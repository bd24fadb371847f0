import { expect, test } from 'vitest'
import { Clock } from '../fixtures/clock.ts'
import { changedInbox, newEvent, silent } from '../fixtures/inbox.ts'
import { memoryInbox, memoryLeases, toDelivery } from '../memory/index.ts'
import type { OwnerToken } from '../model/brands.ts'
import { RetryableError, StoreUnavailableError } from '../model/errors.ts'
import { portOf } from '../model/guard-port.ts'
import type { InFlightEvent } from '../model/in-flight-event.ts'
import type { Inbox } from '../model/inbox.ts'
import type { LeaseStore } from '../model/lease-store.ts'
import type { OpenInbox } from '../run/stores.ts'
import { createGuard } from './guard.ts'
import { createStoreOpener } from './open-stores.ts'
import { resolveOptions } from './resolve-options.ts'

/** An inbox whose sessions must be closed. */
function closing(close: () => Promise<void> = async () => undefined) {
  const state = { opened: 0, closed: 0 }
  const memory = memoryInbox()
  const inbox: Inbox<undefined> = {
    open: async (registration) => {
      state.opened += 1
      const session = await memory.open(registration)
      return Object.assign(session, {
        close: () => {
          state.closed += 1
          return close()
        },
      })
    },
  }
  return { state, inbox }
}

test('close() closes the session of the inbox once, after the runs', async () => {
  const { state, inbox } = closing()
  const running = Promise.withResolvers<void>()
  const ending = Promise.withResolvers<void>()
  const guard = createGuard({ consumer: 'billing', inbox, logger: silent }, async () => {
    running.resolve()
    await ending.promise
  })
  const settled = guard.process(toDelivery({}))
  await running.promise
  const closed = Promise.all([guard.close(), guard.close()])
  expect(state.closed).toBe(0)
  ending.resolve()
  await closed
  expect(await settled).toMatchObject({ kind: 'ack' })
  expect(state).toEqual({ opened: 1, closed: 1 })
})

test('a session that is still being opened when the guard closes is closed too', async () => {
  const { state, inbox } = closing()
  const guard = createGuard({ consumer: 'billing', inbox, logger: silent }, () => undefined)
  const opening = portOf(guard).open()
  await guard.close()
  await opening
  expect(state).toEqual({ opened: 1, closed: 1 })
})

test('a session whose lease store cannot be opened is closed, and opened again', async () => {
  const { state, inbox } = closing()
  let isDown = true
  const memory = memoryLeases()
  const leases: LeaseStore = Object.assign(Object.create(memory), {
    open: async () => {
      if (isDown) throw new StoreUnavailableError('down')
      return memory
    },
  })
  const guard = createGuard({ consumer: 'billing', inbox, leases, logger: silent }, () => undefined)
  await expect(portOf(guard).open()).rejects.toThrow('down')
  expect(state).toEqual({ opened: 1, closed: 1 })
  isDown = false
  await portOf(guard).open()
  expect(state).toEqual({ opened: 2, closed: 1 })
  await guard.close()
  expect(state).toEqual({ opened: 2, closed: 2 })
})

test.each([
  ['rejects', () => Promise.reject(new Error('no'))],
  [
    'throws',
    () => {
      throw new Error('no')
    },
  ],
])('close() ends although the session %s', async (_, close) => {
  const { inbox } = closing(close)
  const guard = createGuard({ consumer: 'billing', inbox, logger: silent }, () => undefined)
  await guard.process(toDelivery({}))
  await guard.close()
})

test.each([['a text'], [null], [undefined]])(
  'a lease store that rejects with %j fails the opening with that',
  async (thrown) => {
    const { state, inbox } = closing()
    const open = (): Promise<never> => Promise.reject(thrown)
    const leases: LeaseStore = Object.assign(Object.create(memoryLeases()), { open })
    const guard = createGuard(
      { consumer: 'billing', inbox, leases, logger: silent },
      () => undefined,
    )
    expect(
      await portOf(guard)
        .open()
        .catch((error: unknown) => ({ error })),
    ).toEqual({ error: thrown })
    expect(state).toEqual({ opened: 1, closed: 1 })
    await guard.close()
  },
)

const call = { kind: 'single', handler: () => undefined } as const

test('a lease store learns whose leases it keeps, and for how long', async () => {
  const registrations: unknown[] = []
  const memory = memoryLeases()
  const leases: LeaseStore = Object.assign(Object.create(memory), {
    open: async (registration: unknown) => {
      registrations.push(registration)
      return memory
    },
  })
  const given = { consumer: 'billing', inbox: memoryInbox(), leases, leaseMs: 5_000 }
  const options = resolveOptions({ ...given, dedupWindowMs: 60_000, logger: silent })
  await createStoreOpener(options, call)()
  const { logger, runtime } = options
  const told = { consumer: 'billing', dedupWindowMs: 60_000, leaseMs: 5_000, logger, runtime }
  expect(registrations).toMatchObject([told])
})

/** Decodes a message that was identified a moment ago, for the next run of its event. */
async function decodedAgain(decode: () => unknown): Promise<unknown> {
  const inbox = memoryInbox()
  const options = resolveOptions({ consumer: 'billing', inbox, logger: silent, decode })
  const { engine } = (await createStoreOpener(options, call)()) as OpenInbox
  const event = { ...newEvent(), delivery: toDelivery('sent') }
  return engine.decodeAgain({ event } as InFlightEvent)
}

test('each run of an event gets a payload of its own', async () => {
  expect(await decodedAgain(() => 'decoded')).toBe('decoded')
})

test('a payload that cannot be decoded again fails the attempt, with the reason', async () => {
  const cause = new RetryableError('the registry is down')
  const decoding = decodedAgain(() => {
    throw cause
  })
  await expect(decoding).rejects.toMatchObject({
    name: 'RetryableError',
    message: expect.stringContaining('could not be decoded again'),
    cause,
  })
})

// Red when a claim without an answer is left to its lease, where nothing but the lease tells that nobody runs the event.
test.each([
  ['leases alone', { onTakeover: 'retry' }, 1],
  ['leases before an inbox', { inbox: memoryInbox() }, 0],
  ['leases alone that no event waits for', { onTakeover: 'retry', onStoreDown: 'unguarded' }, 0],
] as const)('a claim without an answer is released later: %s', async (_, how, released) => {
  const clock = new Clock()
  const { runtime } = clock
  const memory = memoryLeases(runtime)
  const releases: string[] = []
  const leases: LeaseStore = {
    ...memory,
    claim: () => Promise.reject(new StoreUnavailableError('down')),
    release: (held) => {
      releases.push(...held.map(({ id }) => id))
      return memory.release(held)
    },
  }
  const given = { consumer: 'billing', leases, logger: silent, runtime, ...how }
  const stores = await createStoreOpener(resolveOptions(given), call)()
  const { id, fingerprint } = newEvent()
  const claim = { id, fingerprint, ownerToken: 'mine' as OwnerToken, leaseMs: 1_000 }
  await expect(stores.leases?.store.claim([claim])).rejects.toThrow('down')
  for (let n = 0; n < 60; n += 1) {
    clock.advance(500)
    await new Promise((resolve) => setImmediate(resolve))
  }
  expect(releases).toHaveLength(released)
})

test('runs that the inbox cannot release are told to the log, with their number', async () => {
  const lines: object[] = []
  const logger = { ...silent, warn: (fields: object) => lines.push(fields) }
  const release = () => Promise.reject(new StoreUnavailableError('down'))
  const inbox = changedInbox(memoryInbox(), () => ({ release }))
  const stores = await createStoreOpener(
    resolveOptions({ consumer: 'billing', inbox, logger }),
    call,
  )()
  const given = { event: newEvent(), token: 'mine' as OwnerToken, as: 'given-back' } as const
  await stores.engine?.lateReleases.release([given, given])
  expect(lines).toMatchObject([{ runs: 2, err: { message: 'down' } }])
})
