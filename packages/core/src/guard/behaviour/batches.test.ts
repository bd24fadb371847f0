import { expect, test } from 'vitest'
import { silent } from '../../fixtures/inbox.ts'
import { createShift } from '../../fixtures/shift.ts'
import { memoryInbox, toDelivery } from '../../memory/index.ts'
import type { GuardEvent } from '../../model/delivery.ts'
import { FatalError } from '../../model/errors.ts'
import type { OutcomeRecord } from '../../options/options.ts'
import { createBatchGuard, createGuard } from '../guard.ts'

const numbers = (count: number) =>
  Array.from({ length: count }, (_, n) => toDelivery(n, { messageId: `m-${n}` }))

function setUp(bad: (payload: unknown) => void) {
  const runs: unknown[] = []
  const records: OutcomeRecord[] = []
  const shift = createShift()
  const common = {
    consumer: 'billing',
    logger: silent,
    runtime: shift.runtime,
    observe: (record: OutcomeRecord) => {
      records.push(record)
    },
  }
  const inbox = memoryInbox()
  const sequential = createGuard({ ...common, inbox, transaction: 'batch' }, ({ payload }) => {
    runs.push(payload)
    bad(payload)
  })
  const whole = createBatchGuard({ ...common, inbox }, (events: readonly GuardEvent<unknown>[]) => {
    runs.push(events.map(({ payload }) => payload))
    for (const { payload } of events) bad(payload)
  })
  return { inbox, records, runs, sequential, shift, whole }
}

test('events of a batch share one run in delivery order', async () => {
  const { runs, whole, sequential } = setUp(() => undefined)
  const settlements = await whole.processBatch(numbers(100))
  expect(runs).toEqual([Array.from({ length: 100 }, (_, n) => n)])
  expect(settlements.every(({ kind }) => kind === 'ack')).toBe(true)
  expect((await sequential.processBatch(numbers(100)))[7]).toMatchObject({ by: 'duplicate' })
  await Promise.all([whole.close(), sequential.close()])
})

for (const kind of ['sequential', 'whole'] as const) {
  for (const position of [0, 49, 99]) {
    test(`one failing event at ${position} of 100 fails alone (${kind})`, async () => {
      const context = setUp((payload) => {
        if (payload === position) throw new Error('bad one')
      })
      const guard = context[kind]
      const settlements = await guard.processBatch(numbers(100))
      const kinds = settlements.map(({ kind }) => kind)
      expect(kinds.filter((kind) => kind === 'ack')).toHaveLength(99)
      expect(settlements[position]).toMatchObject({ kind: 'defer', reason: 'failed' })
      const innocent = context.records.filter(({ settlement }) => settlement.kind === 'ack')
      expect(innocent.every(({ attempt }) => attempt === 1)).toBe(true)
      await Promise.all([context.sequential.close(), context.whole.close()])
    })
  }
}

test('a FatalError counts only after its event failed alone', async () => {
  let runsOfBad = 0
  const { sequential, whole, inbox } = setUp((payload) => {
    if (payload !== 3) return
    runsOfBad += 1
    throw new FatalError('poison')
  })
  const settlements = await sequential.processBatch(numbers(10))
  expect(settlements[3]).toMatchObject({ kind: 'dead-letter', reason: 'fatal' })
  expect(runsOfBad).toBe(2)
  expect(inbox.deadLetters()).toHaveLength(1)
  await Promise.all([whole.close(), sequential.close()])
})

test('with many failing events every other one is still processed once', async () => {
  const { sequential, whole, runs } = setUp((payload) => {
    if (Number(payload) % 2 === 0) throw new Error('even')
  })
  const settlements = await sequential.processBatch(numbers(40))
  expect(settlements.filter(({ kind }) => kind === 'ack')).toHaveLength(20)
  // Two events fail in a shared transaction, then each event runs alone: no quadratic work.
  expect(runs.length).toBeLessThan(100)
  await Promise.all([whole.close(), sequential.close()])
})

test('a lane of a batch stops at its failed event; the rest of the batch continues', async () => {
  const { sequential, whole } = setUp((payload) => {
    if (payload === 'a2') throw new Error('stop')
  })
  const settlements = await sequential.processBatch(
    ['a1', 'a2', 'b1', 'a3', 'b2'].map((name) =>
      toDelivery(name, { orderingKey: name.slice(0, 1) }),
    ),
  )
  expect(settlements.map(({ kind }) => kind)).toEqual(['ack', 'defer', 'ack', 'defer', 'ack'])
  await Promise.all([whole.close(), sequential.close()])
})

test('suspects of a batch are counted once, in one shared transaction', async () => {
  const { sequential, whole, records } = setUp(() => undefined)
  const redelivered = numbers(10).map((delivery) => ({ ...delivery, redelivered: true }))
  await sequential.processBatch(redelivered)
  expect(records.map(({ attempt }) => attempt)).toEqual(Array(10).fill(1))
  await Promise.all([whole.close(), sequential.close()])
})

test('due events run together after all of them failed', async () => {
  let isBroken = true
  const { sequential, whole, shift } = setUp(() => {
    if (isBroken) throw new Error('down')
  })
  const first = await sequential.processBatch(numbers(5))
  expect(first.every(({ kind }) => kind === 'defer')).toBe(true)
  isBroken = false
  shift.forward(600_000)
  const second = await sequential.processBatch(numbers(5))
  expect(second).toEqual(Array(5).fill({ kind: 'ack', by: 'processed' }))
  await Promise.all([whole.close(), sequential.close()])
})

test('a redelivered event does not overtake an earlier event of its lane that waits for its retry', async () => {
  let isBroken = true
  const { sequential, whole, runs, shift } = setUp((payload) => {
    if (isBroken && payload === 'a1') throw new Error('down')
  })
  const lane = ['a1', 'a2'].map((name) => toDelivery(name, { orderingKey: 'a', messageId: name }))
  const first = await sequential.processBatch(lane)
  expect(first.map(({ kind }) => kind)).toEqual(['defer', 'defer'])
  isBroken = false
  runs.length = 0
  shift.forward(600_000)
  const again = lane.map((delivery) => ({ ...delivery, redelivered: true }))
  expect(await sequential.processBatch(again)).toEqual(
    Array(2).fill({ kind: 'ack', by: 'processed' }),
  )
  expect(runs).toEqual(['a1', 'a2'])
  await Promise.all([whole.close(), sequential.close()])
})

test('suspects run again at once when other events used up the deadline, and no attempt is counted', async () => {
  const { sequential, whole, records, shift } = setUp((payload) => {
    if (payload === 0) shift.forward(4_500)
    if (payload === 1) throw new Error('bad one')
  })
  const redelivered = numbers(3).map((delivery) => ({ ...delivery, redelivered: true }))
  const settlements = await sequential.processBatch(redelivered)
  expect(settlements.map(({ kind }) => kind)).toEqual(['ack', 'defer', 'ack'])
  expect(records.map(({ attempt }) => attempt)).toEqual([1, 1, 1])
  await Promise.all([whole.close(), sequential.close()])
})

// Red when the copies run side by side: the second copy is never settled and never redelivered.
test('copies behind a conflicting leader are one event: the event runs once, and each copy is settled', async () => {
  const { sequential, whole, runs, shift } = setUp((payload) => {
    if (runs.length === 1) throw new Error(`not yet: ${payload}`)
  })
  const copy = toDelivery(5, { messageId: 'm' })
  const conflicting = toDelivery(6, { messageId: 'm' })
  await sequential.process(copy)
  shift.forward(600_000)
  const settlements = await sequential.processBatch([conflicting, copy, copy])
  expect(settlements).toMatchObject([
    { kind: 'dead-letter', reason: 'fingerprint-mismatch' },
    { by: 'processed' },
    { by: 'duplicate' },
  ])
  expect(runs).toEqual([5, 5])
  await Promise.all([whole.close(), sequential.close()])
})

// Red when what a handler for batches returns is ignored: the events were acknowledged, and their effect never happened.
test.each<[string, (events: readonly unknown[]) => unknown]>([
  [
    'a generator',
    function* () {
      yield 1
    },
  ],
  [
    'an asynchronous generator',
    async function* () {
      yield 1
    },
  ],
  ['a function', () => () => undefined],
  ['a query that is not executed', async () => ({ execute: async () => undefined })],
])('a handler for batches that returns %s fails, and says why', async (_what, handler) => {
  const options = { consumer: 'billing', logger: silent, inbox: memoryInbox() }
  const guard = createBatchGuard(options, handler as () => void)
  expect(await guard.process(toDelivery(1))).toMatchObject({
    kind: 'defer',
    cause: 'handler-failed',
    error: { message: expect.stringContaining('a query that was not executed') },
  })
  await guard.close()
})

test.each([undefined, null, 5, [undefined, { rowCount: 1 }], { rows: [] }])(
  'a handler for batches may return %j, which is ignored',
  async (value) => {
    const options = { consumer: 'billing', logger: silent, inbox: memoryInbox() }
    const guard = createBatchGuard(options, (async () => value) as () => Promise<void>)
    expect(await guard.process(toDelivery(1))).toEqual({ kind: 'ack', by: 'processed' })
    await guard.close()
  },
)
