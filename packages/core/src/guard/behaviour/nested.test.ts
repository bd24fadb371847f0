import { expect, test } from 'vitest'
import { type TroubledSetUp, troubled } from '../../fixtures/troubled.ts'
import { toDelivery } from '../../memory/index.ts'
import type { Delivery } from '../../model/delivery.ts'
import type { Settlement } from '../../model/settlement.ts'
import type { Handler } from '../../options/options.ts'

const named = (name: string): Delivery => toDelivery(name, { messageId: name })
const suspect = (name: string): Delivery => ({ ...named(name), redelivered: true })
const turns = async (): Promise<void> => {
  for (let n = 0; n < 20; n += 1) await new Promise((resolve) => setImmediate(resolve))
}
const processed = { kind: 'ack', by: 'processed' } as const

interface Nested {
  readonly kit: TroubledSetUp
  /** What the calls inside the handler answered. */
  readonly inner: Settlement[]
  /** Lets the handler of `outer` go on. */
  readonly go: () => void
}

/** A guard whose handler of `outer` waits, and then processes a delivery of another guard or of its own. */
function setUp(delivery: Delivery, own: boolean, concurrency = 8): Nested {
  const inner: Settlement[] = []
  const gate = Promise.withResolvers<void>()
  const handler: Handler<unknown, undefined> = async ({ payload }) => {
    if (payload !== 'outer') return
    await gate.promise
    inner.push(await (own ? kit : other).guard.process(delivery))
  }
  const kit: TroubledSetUp = troubled(handler, {}, { concurrency })
  const { runtime } = kit
  const other = troubled(() => undefined, {}, { consumer: 'mailing', runtime, concurrency })
  return { kit, inner, go: gate.resolve }
}

// Red before: the call inside waited for the lock that its caller held, until the deadline.
test.each([true, false])(
  'a handler that runs alone may process a delivery, own guard: %s',
  async (own) => {
    const { kit, inner, go } = setUp(named('inner'), own)
    await kit.crash(named('outer'))
    kit.clock.advance(5_000)
    go()
    expect(await kit.guard.process(suspect('outer'))).toEqual(processed)
    expect(inner).toEqual([processed])
  },
)

// Red before: the call inside waited behind the event that waited for its caller.
test.each([true, false])(
  'a delivery inside a handler runs although an event waits to run alone, own guard: %s',
  async (own) => {
    const { kit, inner, go } = setUp(named('inner'), own)
    await kit.crash(named('alone'))
    kit.clock.advance(5_000)
    const outer = kit.guard.process(named('outer'))
    await turns()
    const alone = kit.guard.process(suspect('alone'))
    await turns()
    go()
    expect(await outer).toEqual(processed)
    expect(inner).toEqual([processed])
    expect(await alone).toEqual(processed)
  },
)

// Red before: the event waited for its own caller.
test('an event that must run alone is deferred at once inside a handler', async () => {
  const { kit, inner, go } = setUp(suspect('inner'), true)
  await kit.crash(named('inner'))
  kit.clock.advance(5_000)
  go()
  expect(await kit.guard.process(named('outer'))).toEqual(processed)
  expect(inner).toMatchObject([{ kind: 'defer', reason: 'in-progress', cause: 'waiting-alone' }])
})

// Red before: the call inside waited for the slot of its caller.
test('a delivery inside a handler waits two seconds for a slot of the same guard, and is deferred', async () => {
  const { kit, inner, go } = setUp(named('inner'), true, 1)
  go()
  const outer = kit.guard.process(named('outer'))
  await turns()
  kit.clock.advance(2_000)
  expect(await outer).toEqual(processed)
  expect(inner).toMatchObject([{ kind: 'defer', reason: 'in-progress', cause: 'no-free-slot' }])
  await kit.guard.close()
  expect(kit.clock.timers).toBe(0)
})

test('a handler that has ended holds nothing for the calls that it did not wait for', async () => {
  const gate = Promise.withResolvers<void>()
  const late: Promise<Settlement>[] = []
  const running: unknown[] = []
  const kit: TroubledSetUp = troubled(async ({ payload }) => {
    running.push(payload)
    if (payload === 'outer') late.push(gate.promise.then(() => kit.guard.process(named('late'))))
    if (payload === 'alone') await new Promise<void>((resolve) => ends.push(resolve))
  })
  const ends: (() => void)[] = []
  await kit.crash(named('alone'))
  kit.clock.advance(5_000)
  expect(await kit.guard.process(named('outer'))).toEqual(processed)
  const alone = kit.guard.process(suspect('alone'))
  await turns()
  gate.resolve()
  await turns()
  expect(running).toEqual(['outer', 'alone'])
  for (const end of ends) end()
  expect(await alone).toEqual(processed)
  expect(await late[0]).toEqual(processed)
})

test('a call that its handler did not wait for keeps other events from running alone until it ends', async () => {
  const inner = Promise.withResolvers<void>()
  const calls: Promise<Settlement>[] = []
  const running: unknown[] = []
  const kit: TroubledSetUp = troubled(async ({ payload }) => {
    running.push(payload)
    if (payload === 'outer') {
      calls.push(kit.guard.process(named('inner')))
      await turns()
    }
    if (payload === 'inner') await inner.promise
  })
  await kit.crash(named('alone'))
  kit.clock.advance(5_000)
  expect(await kit.guard.process(named('outer'))).toEqual(processed)
  const alone = kit.guard.process(suspect('alone'))
  await turns()
  expect(running).toEqual(['outer', 'inner'])
  inner.resolve()
  expect(await alone).toEqual(processed)
  expect(await calls[0]).toEqual(processed)
})
