import { expect, onTestFinished, test, vi } from 'vitest'
import { setUp } from '../../fixtures/guard.ts'
import { silent } from '../../fixtures/inbox.ts'
import { createBatchGuard, createGuard, type HandlerContext } from '../../index.ts'
import { memoryInbox, memoryLeases, toDelivery } from '../../memory/index.ts'
import { portOf } from '../../model/guard-port.ts'

const delivery = (key: string, over = {}) =>
  toDelivery({ key }, { headers: { 'idempotency-key': key }, ...over })
const DEFERRED = { kind: 'defer', reason: 'not-due', cause: 'deferred-by-handler' }
const QUICK = { attempts: 2, baseMs: 1, maxMs: 1 }

test('a deferred event comes back after its time without an attempt, and its sends and effects are rolled back', async () => {
  const attempts: number[] = []
  let isReady = false
  const { guard, inbox, shift } = setUp(({ attempt }, { defer, outbox }) => {
    attempts.push(attempt)
    outbox.send({ to: 'mails', payload: 'x' })
    if (!isReady) defer(60_000)
  })
  const before = shift.runtime.now()
  const settlement = await guard.process(delivery('e-1'))
  expect(settlement).toMatchObject(DEFERRED)
  expect(settlement.kind === 'defer' && settlement.until - before).toBeGreaterThanOrEqual(60_000)
  expect(inbox.sent()).toEqual([])
  expect(await guard.process(delivery('e-1'))).toMatchObject({ kind: 'defer', cause: 'not-due' })
  for (let times = 0; times < 5; times += 1) {
    shift.forward(60_001)
    expect(await guard.process(delivery('e-1'))).toMatchObject(DEFERRED)
  }
  isReady = true
  shift.forward(60_001)
  expect(await guard.process(delivery('e-1'))).toMatchObject({ by: 'processed' })
  // Each run was a first attempt.
  expect(new Set(attempts)).toEqual(new Set([1]))
  expect(attempts).toHaveLength(7)
  expect(inbox.sent()).toHaveLength(1)
  await guard.close()
})

test('a handler that catches what is thrown and returns is deferred all the same', async () => {
  const { guard, inbox } = setUp(async (_event, { defer, outbox }) => {
    outbox.send({ to: 'mails', payload: 'x' })
    try {
      return defer(1)
    } catch {
      return 'swallowed'
    }
  })
  expect(await guard.process(delivery('e-1'))).toMatchObject(DEFERRED)
  expect(inbox.sent()).toEqual([])
  await guard.close()
})

test('an event is deferred at most maxDefers times in its life; then each counts as a failed attempt', async () => {
  const attempts: number[] = []
  const { guard, inbox, shift } = setUp(
    ({ attempt }, { defer }) => {
      attempts.push(attempt)
      defer(1_000)
    },
    { maxDefers: 3, retry: QUICK },
  )
  const outcomes: unknown[] = []
  for (let times = 0; times < 6; times += 1) {
    const settlement = await guard.process(delivery('e-1'))
    outcomes.push(settlement.kind === 'defer' ? settlement.cause : settlement.kind)
    shift.forward(1_001)
  }
  expect(outcomes).toEqual([
    ...['deferred-by-handler', 'deferred-by-handler', 'deferred-by-handler'],
    ...['handler-failed', 'dead-letter', 'dead-letter'],
  ])
  expect(attempts).toEqual([1, 1, 1, 1, 2])
  expect(inbox.deadLetters()).toMatchObject([
    {
      reason: 'attempts-spent',
      attempts: 2,
      error: expect.stringMatching(/deferred the event 3 times/),
    },
  ])
  await guard.close()
})

test('maxDefers: 0 makes every deferral a failed attempt', async () => {
  const { guard } = setUp((_event, { defer }) => defer(1), { maxDefers: 0, retry: QUICK })
  expect(await guard.process(delivery('e-1'))).toMatchObject({ cause: 'handler-failed' })
  await guard.close()
})

test('attempts that failed before a deferral still count, and a deferral keeps the error', async () => {
  const runs: string[] = []
  const plan = ['fail', 'defer', 'defer', 'fail', 'ok']
  const { guard, shift } = setUp(
    ({ attempt }, { defer }) => {
      const step = plan[runs.length] ?? 'ok'
      runs.push(`${step} ${attempt}`)
      if (step === 'fail') throw new Error('no')
      if (step === 'defer') defer(1)
    },
    { retry: { attempts: 3, baseMs: 1, maxMs: 1 } },
  )
  for (const _ of plan) {
    await guard.process(delivery('e-1'))
    shift.forward(10)
  }
  expect(runs).toEqual(['fail 1', 'defer 2', 'defer 2', 'fail 2', 'ok 3'])
  await guard.close()
})

test.each([Number.NaN, -1, Number.POSITIVE_INFINITY, undefined, '5'])(
  'defer(%s) waits the back-off of a retry, or a day at most',
  async (ms) => {
    const { guard, shift } = setUp((_event, { defer }) => defer(ms as number))
    const settlement = await guard.process(delivery('e-1'))
    expect(settlement).toMatchObject(DEFERRED)
    const waitMs = settlement.kind === 'defer' ? settlement.until - shift.runtime.now() : 0
    expect(waitMs).toBeGreaterThan(0)
    expect(waitMs).toBeLessThanOrEqual(86_400_000)
    await guard.close()
  },
)

test('in a shared transaction only the event that asked is deferred, and its lane waits', async () => {
  const inbox = memoryInbox()
  const ran: string[] = []
  const options = { consumer: 'billing', inbox, logger: silent, transaction: 'batch' as const }
  const guard = createGuard(options, ({ key }, { defer }) => {
    ran.push(key)
    if (key === 'b') defer(60_000)
  })
  onTestFinished(() => guard.close())
  const batch = [
    ...[delivery('a'), delivery('b', { orderingKey: 'x' }), delivery('c', { orderingKey: 'x' })],
    delivery('d'),
  ]
  const outcomes = await guard.processBatch(batch)
  expect(outcomes).toMatchObject([
    { by: 'processed' },
    DEFERRED,
    { kind: 'defer', cause: 'lane-waits' },
    { by: 'processed' },
  ])
  expect(ran.filter((key) => key === 'b')).toHaveLength(1)
  expect(ran).not.toContain('c')
})

test('the handler of a batch guard defers all of its events', async () => {
  const inbox = memoryInbox()
  let isReady = false
  const guard = createBatchGuard(
    { consumer: 'billing', inbox, logger: silent },
    (_events, { defer }) => {
      if (!isReady) defer(0)
    },
  )
  onTestFinished(() => guard.close())
  const batch = ['a', 'b', 'c'].map((key) => delivery(key))
  expect(await guard.processBatch(batch)).toMatchObject([DEFERRED, DEFERRED, DEFERRED])
  isReady = true
  expect((await guard.processBatch(batch)).map(({ kind }) => kind)).toEqual(['ack', 'ack', 'ack'])
})

test('with leases alone the claim is given back, and the process counts the deferrals', async () => {
  const attempts: number[] = []
  const guard = createGuard(
    {
      ...{ consumer: 'billing', leases: memoryLeases(), onTakeover: 'retry', logger: silent },
      ...{ maxDefers: 2, retry: QUICK },
    },
    ({ attempt }, { defer }) => {
      attempts.push(attempt)
      defer(0)
    },
  )
  onTestFinished(() => guard.close())
  const causes: unknown[] = []
  for (let times = 0; times < 3; times += 1) {
    const settlement = await guard.process(delivery('e-1'))
    causes.push(settlement.kind === 'defer' ? settlement.cause : settlement.kind)
  }
  expect(causes).toEqual(['deferred-by-handler', 'deferred-by-handler', 'handler-failed'])
  expect(attempts).toEqual([1, 1, 1])
})

test('a message without a key is deferred as often as its broker has brought it', async () => {
  const guard = createGuard(
    {
      ...{ consumer: 'billing', inbox: memoryInbox(), onMissingKey: 'unguarded', logger: silent },
      ...{ maxDefers: 2, retry: QUICK },
    },
    (_event, { defer }) => defer(1),
  )
  onTestFinished(() => guard.close())
  const causes: unknown[] = []
  for (const deliveryCount of [1, 2, 3]) {
    const settlement = await guard.process(toDelivery({}, { deliveryCount, headers: {} }))
    causes.push(settlement.kind === 'defer' ? settlement.cause : settlement.kind)
  }
  expect(causes).toEqual(['deferred-by-handler', 'deferred-by-handler', 'dead-letter'])
})

test('a parked event that is deferred stays parked and runs at its time', async () => {
  const runs: string[] = []
  let mode: 'throw' | 'defer' | 'ok' = 'throw'
  const { guard, inbox, shift } = setUp(
    (_event, { defer }) => {
      runs.push(mode)
      if (mode === 'throw') throw new Error('no')
      if (mode === 'defer') defer(30_000)
    },
    { retry: { attempts: 1 } },
  )
  const search = portOf(guard).onDemand()
  await guard.process(delivery('e-1'))
  // The first search is due some time after it was asked for.
  await search()
  const [letter] = inbox.deadLetters()
  if (letter !== undefined) inbox.replay(letter.ref)
  mode = 'defer'
  shift.forward(10_000)
  await search()
  mode = 'ok'
  shift.forward(10_000)
  await search()
  expect(runs).toEqual(['throw', 'defer'])
  shift.forward(30_000)
  await search()
  expect(runs).toEqual(['throw', 'defer', 'ok'])
  await guard.close()
})

test('defer after the run is over throws and changes nothing', async () => {
  let late: HandlerContext<undefined>['defer'] | undefined
  const { guard } = setUp((_event, { defer }) => {
    late = defer
  })
  expect(await guard.process(delivery('e-1'))).toMatchObject({ by: 'processed' })
  expect(() => late?.(1)).toThrow(/is over/)
  expect(await guard.process(delivery('e-1'))).toMatchObject({ by: 'duplicate' })
  await guard.close()
})

test('pauseFor defers the event and pauses the consumer; then one event asks whether the pause is over', async () => {
  let isLimited = true
  const handler = vi.fn((_event: unknown, { pauseFor }: HandlerContext<undefined>) => {
    if (isLimited) pauseFor(60_000)
  })
  const { guard, shift } = setUp(handler)
  const port = portOf(guard)
  expect(await guard.process(delivery('e-1'))).toMatchObject(DEFERRED)
  expect(port.availability()).toMatchObject({ kind: 'down', pause: { source: 'handler' } })
  expect(await guard.process(delivery('e-2'))).toMatchObject({ cause: 'paused' })
  expect(handler).toHaveBeenCalledTimes(1)
  // The probe is refused as well: paused again.
  shift.forward(60_001)
  expect(await guard.process(delivery('e-2'))).toMatchObject(DEFERRED)
  expect(await guard.process(delivery('e-3'))).toMatchObject({ cause: 'paused' })
  isLimited = false
  shift.forward(60_001)
  expect(await guard.process(delivery('e-3'))).toMatchObject({ by: 'processed' })
  expect(port.availability()).toEqual({ kind: 'available' })
  expect(await guard.process(delivery('e-1'))).toMatchObject({ by: 'processed' })
  await guard.close()
})
