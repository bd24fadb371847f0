import { setImmediate as turn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { Clock } from '../fixtures/clock.ts'
import { silent } from '../fixtures/inbox.ts'
import { createGuard } from '../guard/guard.ts'
import { memoryLeases, toDelivery } from '../memory/index.ts'
import type { EventId, Fingerprint, OwnerToken } from '../model/brands.ts'
import { ConfigurationError, StoreUnavailableError } from '../model/errors.ts'
import { portOf } from '../model/guard-port.ts'
import type { Held, LeaseSession } from '../model/lease-store.ts'
import { openNowOrLater } from './open-later.ts'

const down = new StoreUnavailableError('down')

/** A guard without an inbox, and how its lease store opens. */
function setUp(onStoreDown: 'wait' | 'unguarded') {
  const clock = new Clock()
  const memory = memoryLeases(clock.runtime)
  const state = { opened: 0, opening: (): Promise<LeaseSession> => Promise.reject(down) }
  const open = (): Promise<LeaseSession> => {
    state.opened += 1
    return state.opening()
  }
  const guard = createGuard(
    {
      ...{ consumer: 'mailing', onTakeover: 'retry' as const, onStoreDown },
      ...{ leases: { ...memory, open }, logger: silent, runtime: clock.runtime },
    },
    () => undefined,
  )
  return { clock, guard, memory, port: portOf(guard), state }
}

// Red when the opening fails instead: the event was deferred for as long as the store was down.
test('events run unguarded by policy also if the lease store is down at the start, until it opens', async () => {
  const { clock, guard, memory, port, state } = setUp('unguarded')
  await port.open()
  expect(await guard.process(toDelivery({}))).toMatchObject({ kind: 'ack', by: 'unguarded' })
  expect(port.outages()).toEqual([{ dependency: 'leases', error: down }])
  expect(await guard.process(toDelivery({}))).toMatchObject({ kind: 'ack', by: 'unguarded' })
  expect(state.opened).toBe(1)

  state.opening = () => Promise.resolve(memory)
  clock.advance(1_000)
  // This event begins the next opening, and does not wait for it.
  expect(await guard.process(toDelivery({}))).toMatchObject({ by: 'unguarded' })
  await turn()
  expect(await guard.process(toDelivery({}))).toMatchObject({ by: 'processed' })
  expect(port.outages()).toEqual([])
  expect(state.opened).toBe(2)
  await guard.close()
})

test('every method reaches a store that was opened later', async () => {
  const clock = new Clock()
  const memory = memoryLeases(clock.runtime)
  let isDown = true
  const session = await openNowOrLater(
    () => (isDown ? Promise.reject(down) : Promise.resolve(memory)),
    clock.runtime,
  )
  const held = ['a', 'b', 'c'].map((name) => ({
    id: name as EventId,
    ownerToken: name as OwnerToken,
  })) as [Held, Held, Held]
  const claims = held.map((one) => ({
    ...one,
    fingerprint: 257n as Fingerprint,
    leaseMs: 60_000,
  }))
  isDown = false
  clock.advance(1_000)
  await expect(session.claim(claims)).rejects.toThrow(down)
  await turn()
  const kinds = async () => (await session.claim(claims)).map(({ kind }) => kind)
  expect(await kinds()).toEqual(['acquired', 'acquired', 'acquired'])
  const [a, b, c] = held
  expect(await session.renew(held, 60_000)).toEqual(['held', 'held', 'held'])
  expect(await session.fail([{ ...a, delayMs: 5_000 }])).toEqual(['held'])
  expect(await session.release([b])).toEqual(['held'])
  expect(await session.bury([{ ...c, reason: 'fatal' }], 5_000)).toEqual(['held'])
  expect(await kinds()).toEqual(['not-due', 'acquired', 'dead'])
})

test('an opening that hangs holds no event up, and no other begins beside it', async () => {
  const { clock, guard, state } = setUp('unguarded')
  expect(await guard.process(toDelivery({}))).toMatchObject({ by: 'unguarded' })
  state.opening = () => new Promise(() => undefined)
  for (let n = 0; n < 3; n++) {
    clock.advance(60_000)
    expect(await guard.process(toDelivery({}))).toMatchObject({ by: 'unguarded' })
  }
  expect(state.opened).toBe(2)
  await guard.close()
})

test('a failed try is followed by another one a second later', async () => {
  const { clock, guard, state } = setUp('unguarded')
  for (const [advanceMs, opened] of [
    [0, 1],
    [1_000, 2],
    [999, 2],
    [1, 3],
  ] as const) {
    clock.advance(advanceMs)
    await guard.process(toDelivery({}))
    await turn()
    expect(state.opened).toBe(opened)
  }
  await guard.close()
})

test('a store that cannot do what the guard needs is refused whatever the policy says', async () => {
  for (const policy of ['wait', 'unguarded'] as const) {
    const { guard, port, state } = setUp(policy)
    state.opening = () => Promise.reject(new ConfigurationError('too old'))
    await expect(port.open()).rejects.toThrow('too old')
    await guard.close()
  }
})

test('where events wait for the store, a start without it fails', async () => {
  const { guard, port } = setUp('wait')
  await expect(port.open()).rejects.toThrow(down)
  await guard.close()
})
