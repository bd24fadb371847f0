import { expect, test } from 'vitest'
import { silent } from '../fixtures/inbox.ts'
import { memoryInbox, memoryLeases, toDelivery } from '../memory/index.ts'
import { StoreUnavailableError } from '../model/errors.ts'
import { portOf } from '../model/guard-port.ts'
import type { Inbox } from '../model/inbox.ts'
import type { LeaseStore } from '../model/lease-store.ts'
import { createGuard } from './guard.ts'

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
