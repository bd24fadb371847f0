import { describe, expect, test } from 'vitest'
import { silent } from '../../fixtures/inbox.ts'
import { type TroubledSetUp, type Troubles, troubled } from '../../fixtures/troubled.ts'
import { memoryLeases, toDelivery } from '../../memory/index.ts'
import type { DeadLetterRef } from '../../model/dead-letter.ts'
import type { Delivery } from '../../model/delivery.ts'
import { type Guard, portOf } from '../../model/guard-port.ts'
import type { InboxSession } from '../../model/inbox.ts'
import type { Handler } from '../../options/options.ts'
import { createGuard } from '../guard.ts'

const named = (name: string): Delivery => toDelivery(name, { messageId: name })
const suspect = (name: string): Delivery => ({ ...named(name), redelivered: true })
const keyless = (payload: string): Delivery => toDelivery(payload, { headers: {} })
const turns = async (): Promise<void> => {
  for (let n = 0; n < 20; n += 1) await new Promise((resolve) => setImmediate(resolve))
}
const processed = { kind: 'ack', by: 'processed' } as const
const waitingAlone = { kind: 'defer', reason: 'in-progress', cause: 'waiting-alone' } as const

/** Handlers that run until the test ends them, and what ran beside each other. */
function createGates() {
  const open = new Map<unknown, () => void>()
  const running = new Set<unknown>()
  const beside: string[] = []
  const handler: Handler<unknown, undefined> = async ({ payload }) => {
    for (const other of running) beside.push(`${other} + ${payload}`)
    running.add(payload)
    await new Promise<void>((resolve) => open.set(payload, resolve))
    running.delete(payload)
  }
  const end = async (payload: string): Promise<void> => {
    const resolve = open.get(payload)
    if (resolve === undefined) throw new Error(`${payload} is not running`)
    resolve()
    await turns()
  }
  return { handler, end, running, beside }
}

const leased = ({ runtime }: TroubledSetUp, handler: Handler<unknown, undefined>): Guard =>
  createGuard(
    {
      ...{ consumer: 'mailing', leases: memoryLeases(runtime), logger: silent, runtime },
      ...{ onTakeover: 'retry', onMissingKey: 'unguarded' },
    },
    handler,
  )

interface Kit extends TroubledSetUp {
  readonly session: () => InboxSession<undefined>
}

/** Replays a dead letter, so that the poller of the guard runs it. */
async function replayed(
  { clock, guard, inbox, session }: Kit,
  bury: (session: InboxSession<undefined>) => Promise<DeadLetterRef | undefined>,
): Promise<unknown> {
  await portOf(guard).open()
  const ref = await bury(session())
  if (ref === undefined || !inbox.replay(ref)) throw new Error('it was not replayed')
  clock.advance(7_000)
  await turns()
  return processed
}

/** Starts a run in the process of the kit. */
const KINDS: readonly (readonly [
  string,
  (kit: Kit, handler: Handler<unknown, undefined>) => Promise<unknown>,
])[] = [
  ['a keyed event', ({ guard }) => guard.process(named('other'))],
  ['a suspect', ({ guard }) => guard.process(suspect('other'))],
  ['a message without a key', ({ guard }) => guard.process(keyless('other'))],
  ['a lease-only event', (kit, handler) => leased(kit, handler).process(named('other'))],
  [
    'a keyless message beside leases',
    (kit, handler) => leased(kit, handler).process(keyless('other')),
  ],
  [
    'an event while the lease store is down',
    ({ runtime }, handler) => {
      const claim = () => Promise.reject(new Error('down'))
      const leases = { ...memoryLeases(runtime), claim }
      const given = { consumer: 'mailing', leases, logger: silent, runtime } as const
      return createGuard(
        { ...given, onTakeover: 'retry', onStoreDown: 'unguarded' },
        handler,
      ).process(named('other'))
    },
  ],
  [
    'a parked message without a key',
    (kit) =>
      replayed(kit, async (session) => {
        const [delivery, error] = [keyless('other'), new Error('no key')]
        const [ref] = await session.refuse([{ delivery, reason: 'missing-event-key', error }])
        return ref
      }),
  ],
]

async function crashed(handler: Handler<unknown, undefined>): Promise<Kit> {
  let opened: InboxSession<undefined> | undefined
  const troubles: Troubles = {
    session: (session) => {
      opened = session
      return {}
    },
  }
  const session = (): InboxSession<undefined> => opened as InboxSession<undefined>
  const kit = { ...troubled(handler, troubles, { onMissingKey: 'unguarded' }), session }
  await kit.crash(named('alone'))
  kit.clock.advance(5_000)
  return kit
}

// Red before: only keyed events of an inbox took part, so a keyless poison buried the innocent event that ran alone.
describe.each(KINDS)('%s', (_, start) => {
  test('does not start beside an event that runs alone, and runs after it', async () => {
    const gates = createGates()
    const kit = await crashed(gates.handler)
    const alone = kit.guard.process(suspect('alone'))
    await turns()
    expect([...gates.running]).toEqual(['alone'])
    const other = start(kit, gates.handler)
    await turns()
    expect([...gates.running]).toEqual(['alone'])
    await gates.end('alone')
    expect(await alone).toEqual(processed)
    expect([...gates.running]).toEqual(['other'])
    await gates.end('other')
    expect(await other).toMatchObject({ kind: 'ack' })
    expect(gates.beside).toEqual([])
  })

  test('is waited for by an event that must run alone', async () => {
    const gates = createGates()
    const kit = await crashed(gates.handler)
    const other = start(kit, gates.handler)
    await turns()
    const alone = kit.guard.process(suspect('alone'))
    await turns()
    expect([...gates.running]).toEqual(['other'])
    await gates.end('other')
    expect(await other).toMatchObject({ kind: 'ack' })
    expect([...gates.running]).toEqual(['alone'])
    await gates.end('alone')
    expect(await alone).toEqual(processed)
    expect(gates.beside).toEqual([])
  })
})

// Red before: the waiting event stalled every other event for the eight seconds.
test('an event that waits two seconds to run alone is deferred without a count, and its neighbours run', async () => {
  const counts: string[] = []
  const gates = createGates()
  const kit = troubled(gates.handler, {
    session: (session) => ({
      count: (events, run) => {
        counts.push(run)
        return session.count(events, run)
      },
    }),
  })
  await kit.crash(named('alone'))
  kit.clock.advance(5_000)
  const slow = kit.guard.process(named('slow'))
  await turns()
  const alone = kit.guard.process(suspect('alone'))
  await turns()
  const neighbour = kit.guard.process(named('neighbour'))
  kit.clock.advance(1_999)
  await turns()
  expect([...gates.running]).toEqual(['slow'])
  kit.clock.advance(1)
  const deferred = await alone
  expect(deferred).toMatchObject(waitingAlone)
  await turns()
  expect([...gates.running]).toEqual(['slow', 'neighbour'])
  expect(counts).toEqual([])
  await gates.end('slow')
  await gates.end('neighbour')
  expect([await slow, await neighbour]).toEqual([processed, processed])
  const again = kit.guard.process(suspect('alone'))
  await turns()
  await gates.end('alone')
  expect(await again).toEqual(processed)
  expect(kit.records.at(-1)).toMatchObject({ attempt: 2 })
})

test('a guard that closes ends the waits for the lock', async () => {
  const gates = createGates()
  const kit = await crashed(gates.handler)
  const slow = kit.guard.process(named('slow'))
  await turns()
  const alone = kit.guard.process(suspect('alone'))
  await turns()
  const behind = [kit.guard.process(named('behind')), kit.guard.process(keyless('behind too'))]
  await turns()
  const closed = kit.guard.close()
  const closing = { kind: 'abandon', reason: 'closing' }
  for (const end of await Promise.all([alone, ...behind])) expect(end).toMatchObject(closing)
  await gates.end('slow')
  expect(await slow).toEqual(processed)
  await closed
})
