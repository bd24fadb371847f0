import type { Settlement } from '@onceward/core'
import { handMadeGuard } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { createAccept, type Received } from './delivery.ts'
import { unknownTerms } from './doctor.ts'
import { DisconnectedError } from './errors.ts'
import { handMadeApi, pulled } from './fixtures/hand-made-api.ts'
import { resolveSettings } from './options.ts'
import { createSettleContext, returnUnstarted, settle } from './settle.ts'

const NOW_MS = 1_000_000
/** That of a server by default. */
const ACK_WAIT_MS = 30_000

function setUp(deadLetter?: { readonly subject: string }) {
  const made = handMadeGuard()
  const server = handMadeApi()
  const { port, clock } = made
  const terms = unknownTerms()
  const settings = resolveSettings({ stream: 'ORDERS', deadLetter }, port.settings)
  const context = {
    ...createSettleContext(port, server.api, { settings, terms }),
    mayHold: () => true,
  }
  const { runtime } = clock
  const accept = createAccept(settings, context.owned, { terms, runtime })
  const receive = (over: Parameters<typeof pulled>[0] = {}): Received => {
    const [received] = accept([pulled(over)], clock.nowMs)
    if (received === undefined) throw new Error('expected a message')
    return received
  }
  return { ...made, ...server, terms, context, accept, receive }
}

const ack: Settlement = { kind: 'ack', by: 'processed' }
const failed = (inMs: number): Settlement =>
  ({ kind: 'defer', reason: 'failed', until: NOW_MS + inMs }) as never

test.each<[Settlement, number, string]>([
  [ack, 1, '+ACK'],
  [failed(9_000), 1, '-NAK {"delay":9000000000}'],
  // It would be delivered at once otherwise.
  [failed(0), 1, '-NAK {"delay":1000000}'],
  [
    { kind: 'defer', reason: 'in-progress', until: NOW_MS as never },
    1,
    '-NAK {"delay":2200000000}',
  ],
  [
    { kind: 'defer', reason: 'in-progress', until: NOW_MS as never },
    2,
    '-NAK {"delay":4400000000}',
  ],
  [{ kind: 'dead-letter', reason: 'fatal' }, 1, '+TERM'],
  [{ kind: 'abandon', reason: 'closing' }, 1, '-NAK'],
  [{ kind: 'abandon', reason: 'lease-lost' }, 1, '-NAK {"delay":2200000000}'],
])('%o of delivery %i is said as %s', async (settlement, count, verb) => {
  const kit = setUp()
  const received = kit.receive({ count })
  const settling = settle(kit.context, received, settlement)
  await kit.clock.advance(100)
  expect(await settling).toBeUndefined()
  expect(kit.said).toEqual([[received.claim.reply, verb]])
  expect(kit.context.report.settleFailures).toBe(0)
})

test('while the store is down a message is held and renewed, so that no delivery is spent', async () => {
  const kit = setUp()
  const received = kit.receive()
  const down: Settlement = { kind: 'defer', reason: 'store-down', until: NOW_MS as never }
  expect(await settle(kit.context, received, down)).toBeGreaterThanOrEqual(NOW_MS)
  await kit.clock.advance(2 * ACK_WAIT_MS)
  expect(new Set(kit.said.map(([, verb]) => verb))).toEqual(new Set(['+WPI']))
  expect(received.claim.untilMs).toBeGreaterThan(kit.clock.nowMs)
})

// A process that was frozen: its timers did not run. The server takes what it says, so it must say nothing.
test.each([ack, failed(0), { kind: 'dead-letter', reason: 'fatal' } as const])(
  'after its ack_wait nothing is said about a message: %o',
  async (settlement) => {
    const kit = setUp()
    const received = kit.receive()
    received.claim.untilMs = kit.clock.nowMs
    const settling = settle(kit.context, received, settlement)
    await kit.clock.advance(100)
    await settling
    expect(kit.said).toEqual([])
    expect(kit.context.report.settleFailures).toBe(1)
    expect(kit.logged.at(-1)?.text).toMatch(/not carried out/)
  },
)

test('what was said on a connection that broke is said again on the next one', async () => {
  const kit = setUp()
  const received = kit.receive()
  let breaks = 2
  kit.state.confirm = async () => {
    breaks -= 1
    if (breaks >= 0) throw new DisconnectedError()
  }
  await settle(kit.context, received, ack)
  expect(kit.said.map(([, verb]) => verb)).toEqual(['+ACK', '+ACK', '+ACK'])
  expect(kit.context.report.settleFailures).toBe(0)
})

test('without a connection the settlement is left out and reported', async () => {
  const kit = setUp()
  const received = kit.receive()
  kit.state.isUp = false
  await settle(kit.context, received, ack)
  await returnUnstarted(kit.context, kit.receive({ sequence: 8 }))
  expect(kit.said).toEqual([])
  expect(kit.context.report.settleFailures).toBe(2)
})

test('a message that is not renewed is lost, and told once; one of another stream of its name is not renewed as it', async () => {
  const kit = setUp()
  const lost: unknown[] = []
  kit.context.owned.onLost = ({ message }) => void lost.push(message.info.streamSequence)
  const received = kit.receive()
  kit.state.confirm = () => Promise.reject(new DisconnectedError())
  await kit.clock.advance(ACK_WAIT_MS + 1)
  expect(lost).toEqual([7])
  expect(received.claim.untilMs).toBe(0)
  await kit.clock.advance(ACK_WAIT_MS)
  expect(lost).toEqual([7])
  kit.state.confirm = async () => undefined
  const old = kit.receive({ sequence: 9 })
  const other = kit.receive({ sequence: 9, nanos: 1_800_000_000_000_000_000 })
  expect(other.claim).not.toBe(old.claim)
  kit.context.owned.forget()
  expect(lost).toEqual([7, 9, 9])
})

test('a message that comes again while it is in hand is dropped, and settled by its newest delivery', async () => {
  const kit = setUp()
  const received = kit.receive()
  const again = pulled({ count: 2 })
  expect(kit.accept([again], kit.clock.nowMs)).toEqual([])
  await settle(kit.context, received, ack)
  expect(kit.said).toEqual([[again.reply, '+ACK']])
})

test('messages that lay in the socket for longer than their ack_wait are not taken', () => {
  const kit = setUp()
  expect(kit.accept([pulled()], kit.clock.nowMs - ACK_WAIT_MS)).toEqual([])
})

test('a dead letter that is not published is tried again later', async () => {
  const kit = setUp({ subject: 'dead.orders' })
  const received = kit.receive()
  ;(kit as unknown as { state: { publish: string } }).state.publish = 'retry'
  Object.assign(kit.context.port, {
    publishDeadLetter: async () => ({ kind: 'retry', error: new Error('full') }),
  })
  await settle(kit.context, received, { kind: 'dead-letter', reason: 'fatal' })
  expect(kit.said.map(([, verb]) => verb)).toEqual([
    expect.stringMatching(/^-NAK \{"delay":\d{10,}\}$/),
  ])
})
