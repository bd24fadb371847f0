import { expect, onTestFinished, test, vi } from 'vitest'
import { setUp } from '../../fixtures/guard.ts'
import { silent } from '../../fixtures/inbox.ts'
import { createGuard } from '../../index.ts'
import { memoryInbox, toDelivery } from '../../memory/index.ts'
import { pauseOf, portOf } from '../../model/guard-port.ts'
import type { Settlement } from '../../model/settlement.ts'

const delivery = (key: string) => toDelivery({ key }, { headers: { 'idempotency-key': key } })
const PAUSED = { kind: 'defer', reason: 'store-down', cause: 'paused' }
const OPERATOR = { source: 'operator', by: 'ana', why: 'the bank is down' } as const
/** A process looks every 1.5 s; this machine may be busy. */
const SOON = { timeout: 20_000, interval: 20 }

test('a paused guard starts nothing, says who paused it, and goes on when it is resumed', async () => {
  const handler = vi.fn()
  const { guard } = setUp(handler)
  const port = portOf(guard)
  port.pause(OPERATOR)
  const settlement = await guard.process(delivery('e-1'))
  expect(settlement).toMatchObject({
    ...PAUSED,
    error: expect.objectContaining({
      code: 'ONCEWARD_PAUSED',
      message: expect.stringMatching(/billing is paused by ana: the bank is down/),
    }),
  })
  expect(handler).not.toHaveBeenCalled()
  expect(pauseOf(port)).toMatchObject({ kind: 'down', pause: OPERATOR })
  port.resume()
  expect(port.availability()).toEqual({ kind: 'available' })
  expect(await guard.process(delivery('e-1'))).toMatchObject({ by: 'processed' })
  await guard.close()
})

test('an event that runs goes on, and those that wait for its slot are answered as paused, not as closed', async () => {
  const running = Promise.withResolvers<void>()
  const handler = vi.fn(() => running.promise)
  const { guard } = setUp(handler, { concurrency: 1 })
  const port = portOf(guard)
  const onPaused = vi.fn()
  port.onPaused(onPaused)
  const [first, second] = [guard.process(delivery('e-1')), guard.process(delivery('e-2'))]
  await vi.waitFor(() => expect(handler).toHaveBeenCalled(), SOON)
  port.pause(OPERATOR)
  port.pause(OPERATOR)
  expect(onPaused).toHaveBeenCalledTimes(1)
  // Resumed before the answer: what a pause has stopped never looks as if the guard were closed.
  port.resume()
  expect(await second).toMatchObject(PAUSED)
  running.resolve()
  expect(await first).toMatchObject({ by: 'processed' })
  expect(handler).toHaveBeenCalledTimes(1)
  await guard.close()
  expect(await guard.process(delivery('e-3'))).toMatchObject({ kind: 'abandon', reason: 'closing' })
})

test('a pause from outside reaches every process, also one that starts later, and ends without a restart', async () => {
  const inbox = memoryInbox()
  const make = () => createGuard({ consumer: 'billing', inbox, logger: silent }, () => undefined)
  const [one, other] = [make(), make()]
  onTestFinished(() => Promise.all([one.close(), other.close()]).then(() => undefined))
  const outcomes = async (key: string) => [
    (await one.process(delivery(`${key}-1`))).kind,
    (await other.process(delivery(`${key}-2`))).kind,
  ]
  expect(await outcomes('a')).toEqual(['ack', 'ack'])
  inbox.pause('billing', { by: 'ana' })
  let n = 0
  await vi.waitFor(async () => expect(await outcomes(`b${n++}`)).toEqual(['defer', 'defer']), SOON)
  const late = make()
  expect(await late.process(delivery('c'))).toMatchObject(PAUSED)
  await late.close()
  inbox.pause('billing', undefined)
  await vi.waitFor(async () => expect(await outcomes(`d${n++}`)).toEqual(['ack', 'ack']), SOON)
})

test('a pause of the guard itself reaches the other processes, and a shorter one ends no longer one', async () => {
  const inbox = memoryInbox()
  const make = () => createGuard({ consumer: 'billing', inbox, logger: silent }, () => undefined)
  const [one, other] = [make(), make()]
  onTestFinished(() => Promise.all([one.close(), other.close()]).then(() => undefined))
  await one.process(delivery('a'))
  await other.process(delivery('b'))
  portOf(one).pause({ source: 'guard', why: 'its first 20 messages were refused' })
  portOf(one).pause({ source: 'handler', forMs: 1 })
  await vi.waitFor(() => {
    expect(portOf(other).availability()).toMatchObject({ pause: { source: 'guard' } })
    expect(portOf(one).availability()).toMatchObject({ pause: { source: 'guard' } })
  }, SOON)
  portOf(other).resume()
  await vi.waitFor(() => {
    expect(portOf(one).availability()).toEqual({ kind: 'available' })
  }, SOON)
})

test('parked events wait while the consumer is paused', async () => {
  let isWrong = true
  const handler = vi.fn(() => {
    if (isWrong) throw new Error('wrong')
  })
  const { guard, inbox, shift } = setUp(handler, { retry: { attempts: 1 } })
  const port = portOf(guard)
  // The search for parked events, when the test asks for it.
  const search = port.onDemand()
  await guard.process(delivery('e-1'))
  isWrong = false
  port.pause(OPERATOR)
  const [letter] = inbox.deadLetters()
  if (letter !== undefined) inbox.replay(letter.ref)
  shift.forward(10_000)
  await search()
  expect(handler).toHaveBeenCalledTimes(1)
  port.resume()
  shift.forward(10_000)
  await search()
  expect(handler).toHaveBeenCalledTimes(2)
  await guard.close()
})

test('a pause of an operator ends at its time; after one of a handler a single event asks whether it is over', async () => {
  let running = Promise.withResolvers<void>()
  const handler = vi.fn(() => running.promise)
  const { guard, shift } = setUp(handler)
  const port = portOf(guard)
  running.resolve()
  port.pause({ ...OPERATOR, forMs: 60_000 })
  expect(await guard.process(delivery('e-1'))).toMatchObject(PAUSED)
  shift.forward(60_001)
  expect(port.availability()).toEqual({ kind: 'available' })
  expect(await guard.process(delivery('e-1'))).toMatchObject({ by: 'processed' })

  running = Promise.withResolvers()
  port.pause({ source: 'handler', forMs: 60_000 })
  shift.forward(60_001)
  expect(pauseOf(port)).toBeUndefined()
  expect(port.availability()).toMatchObject({ kind: 'down', pause: { source: 'handler' } })
  const probe = guard.process(delivery('e-2'))
  await vi.waitFor(() => expect(handler).toHaveBeenCalledTimes(2), SOON)
  expect(await guard.process(delivery('e-3'))).toMatchObject(PAUSED)
  expect(pauseOf(port)).toBeDefined()
  running.resolve()
  expect(await probe).toMatchObject({ by: 'processed' })
  expect(await guard.process(delivery('e-3'))).toMatchObject({ by: 'processed' })
  await guard.close()
})

test('a batch that is paused in the middle answers the rest as paused and counts nothing', async () => {
  const inbox = memoryInbox()
  const seen: number[] = []
  const guard = createGuard(
    { consumer: 'billing', inbox, logger: silent, concurrency: 1 },
    ({ attempt }) => {
      seen.push(attempt)
      if (seen.length === 2) portOf(guard).pause(OPERATOR)
    },
  )
  const batch = [1, 2, 3, 4].map((n) => delivery(`e-${n}`))
  const outcomes = (await guard.processBatch(batch)).map((each: Settlement) =>
    each.kind === 'defer' ? each.cause : each.kind,
  )
  expect(outcomes).toEqual(['ack', 'ack', 'paused', 'paused'])
  portOf(guard).resume()
  expect((await guard.processBatch(batch)).map(({ kind }) => kind)).toEqual(batch.map(() => 'ack'))
  expect(seen).toEqual([1, 1, 1, 1])
  await guard.close()
})
