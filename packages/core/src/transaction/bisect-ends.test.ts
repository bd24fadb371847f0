import { expect, test } from 'vitest'
import { silent } from '../fixtures/inbox.ts'
import { type Troubles, troubled, troubledBatch } from '../fixtures/troubled.ts'
import { toDelivery } from '../memory/index.ts'
import { StoreUnavailableError } from '../model/errors.ts'
import { portOf } from '../model/guard-port.ts'
import type { BeginRequest, InboxTransaction } from '../model/inbox.ts'

const named = (name: string) => toDelivery(name, { messageId: name })
const suspect = (name: string) => ({ ...named(name), redelivered: true })
const names = (count: number) => Array.from({ length: count }, (_, n) => `m${n}`)
const coded = (code: string): Error => Object.assign(new Error(code), { code })
const never = (): Promise<never> => new Promise(() => undefined)
const sizeOf = ({ claim }: BeginRequest) => (claim.kind === 'none' ? 0 : claim.events.length)

const processed = { kind: 'ack', by: 'processed' } as const
const failed = { kind: 'defer', reason: 'failed' } as const
const closing = { kind: 'abandon', reason: 'closing', cause: 'draining' } as const
const batch = { transaction: 'batch' } as const

/** Makes a statement fail in each of these transactions. */
const failedUpTo = (last: number): Troubles => ({
  transaction: (transaction, n) => ({
    status: () => (n <= last ? 'failed' : transaction.status()),
  }),
})

/** Another transaction holds a row while these transactions begin. */
const heldUpTo = (last: number): Troubles => {
  let n = 0
  return {
    session: (session) => ({
      begin: async (request) => {
        n += 1
        return n <= last ? { kind: 'held' } : session.begin(request)
      },
    }),
  }
}

test('after a serialization failure one event is run five more times, with growing pauses', async () => {
  const ranAtMs: number[] = []
  const { clock, guard, records } = troubled(() => {
    ranAtMs.push(clock.runtime.monotonic() - 1_000_000)
    throw coded('40001')
  }, failedUpTo(6))
  const settlement = await clock.until(guard.process(named('a')))
  expect(settlement).toMatchObject({ ...failed, error: { code: '40001' } })
  expect(ranAtMs).toEqual([0, 10, 30, 60, 100, 150])
  expect(records).toMatchObject([{ attempt: 1 }])
  await guard.close()
})

test('after a serialization failure several events are run together once more, then each event alone', async () => {
  const debugged: object[] = []
  const ranAtMs: number[] = []
  let runs = 0
  const { asked, clock, guard } = troubled(
    () => {
      ranAtMs.push(clock.runtime.monotonic() - 1_000_000)
      runs += 1
      if (runs <= 2) throw coded('40P01')
    },
    failedUpTo(2),
    { ...batch, logger: { ...silent, debug: (fields: object) => void debugged.push(fields) } },
  )
  const settlements = await clock.until(guard.processBatch(['a', 'b', 'c'].map(named)))
  expect(settlements).toEqual(Array(3).fill(processed))
  expect(asked.begins.map(sizeOf)).toEqual([3, 3, 1, 1, 1])
  expect(ranAtMs).toEqual([0, 10, 10, 10, 10])
  expect(debugged).toContainEqual({ members: 3 })
  await guard.close()
})

test('after the second failed event of a batch, all other events run alone', async () => {
  const { asked, guard } = troubled(
    ({ payload }) => {
      if (payload === 'm3' || payload === 'm7') throw new Error('bad one')
    },
    {},
    batch,
  )
  const settlements = await guard.processBatch(names(10).map(named))
  expect(settlements.filter(({ kind }) => kind === 'ack')).toHaveLength(8)
  expect(asked.begins.map(sizeOf)).toEqual([10, 3, 1, 6, 1, 1, 1, 1, 1, 1])
  await guard.close()
})

test('a batch whose handler fails is halved until the failing event is alone', async () => {
  const runs: string[] = []
  const { guard } = troubledBatch((events) => {
    runs.push(events.map(({ payload }) => payload).join())
    if (events.some(({ payload }) => payload === 'm4')) throw new Error('bad one')
  })
  const settlements = await guard.processBatch(names(5).map(named))
  expect(settlements.map(({ kind }) => kind)).toEqual(['ack', 'ack', 'ack', 'ack', 'defer'])
  expect(runs).toEqual(['m0,m1,m2,m3,m4', 'm0,m1,m2', 'm3,m4', 'm3', 'm4'])
  await guard.close()
})

test('events that use up the deadline together are run in halves, and none has failed', async () => {
  let runs = 0
  const { asked, clock, guard, records } = troubled(
    () => {
      runs += 1
      if (runs > 2) return
      if (runs === 2) clock.advance(3_000)
      return runs === 2 ? never() : undefined
    },
    {},
    { ...batch, deadlineMs: 3_000 },
  )
  const settlements = await guard.processBatch(names(3).map(suspect))
  expect(settlements).toEqual(Array(3).fill(processed))
  expect(asked.begins.map(sizeOf)).toEqual([3, 2, 1])
  expect(asked.releases).toEqual([])
  expect(asked.commits).toHaveLength(2)
  expect(records.map(({ attempt }) => attempt)).toEqual([1, 1, 1])
  await guard.close()
})

test.each([
  [1, [250]],
  [4, [62.5, 50, 50, 50, 50]],
  [20, [25, ...Array(20).fill(50)]],
])('after a locked row, none of %i events waits long for its row', async (count, waits) => {
  const { asked, guard } = troubled(() => undefined, count === 1 ? {} : heldUpTo(1), batch)
  const settlements = await guard.processBatch(names(count).map(named))
  expect(settlements).toEqual(Array(count).fill(processed))
  expect(asked.begins.map(({ waitMs }) => waitMs)).toEqual(waits)
  await guard.close()
})

test('a suspect whose row stays locked has used up no attempt', async () => {
  const { asked, clock, guard, records } = troubled(() => undefined, heldUpTo(1))
  const settlement = await guard.process(suspect('a'))
  expect(settlement).toMatchObject({ kind: 'defer', cause: 'held-by-row' })
  expect(asked.releases).toMatchObject([{ as: 'given-back' }])
  clock.advance(60_000)
  expect(await guard.process(suspect('a'))).toEqual(processed)
  expect(records.at(-1)).toMatchObject({ attempt: 1 })
  await guard.close()
})

test('an event whose row stays locked is deferred for longer and longer, until it is done', async () => {
  const { clock, guard } = troubled(() => undefined, heldUpTo(2))
  const untils: unknown[] = []
  for (let n = 0; n < 2; n += 1) {
    const settlement = await guard.process(named('a'))
    expect(settlement).toMatchObject({ kind: 'defer', reason: 'in-progress' })
    untils.push('until' in settlement && settlement.until - clock.runtime.now())
  }
  expect(untils).toEqual([1_000, 1_500])
  expect(await guard.process(named('a'))).toEqual(processed)
  await guard.close()
})

test('a handler that commits by itself: events that ran are processed, the others run', async () => {
  let open: InboxTransaction<undefined> | undefined
  const runs: unknown[] = []
  const { guard, logged } = troubled(
    async ({ payload, idempotencyKey }) => {
      runs.push(payload)
      if (runs.length !== 2) return
      await open?.commit({ results: new Map([[idempotencyKey as never, '"mine"']]), recovered: [] })
    },
    {
      transaction: (transaction) => {
        open = transaction
        return {}
      },
    },
    batch,
  )
  expect(await guard.processBatch(['a', 'b', 'c'].map(named))).toEqual([
    processed,
    { ...processed, result: 'mine' },
    processed,
  ])
  expect(runs).toEqual(['a', 'b', 'c'])
  expect(logged).toMatchObject([
    {
      level: 'error',
      fields: {
        err: { code: 'ONCEWARD_RETRYABLE' },
        events: Array(3).fill(expect.stringMatching(/./)),
      },
    },
  ])
  await guard.close()
})

test('a handler that rolls back by itself fails once its event is alone', async () => {
  let open: InboxTransaction<undefined> | undefined
  const runs: unknown[] = []
  const { asked, guard } = troubled(
    async ({ payload }) => {
      runs.push(payload)
      if (payload === 'b') await open?.rollback()
    },
    {
      transaction: (transaction) => {
        open = transaction
        return {}
      },
    },
    batch,
  )
  const settlements = await guard.processBatch(['a', 'b', 'c'].map(suspect))
  expect(settlements).toMatchObject([
    processed,
    { ...failed, error: { message: expect.stringContaining('ended the transaction') } },
    processed,
  ])
  expect(asked.begins.map(sizeOf)).toEqual([3, 1, 1, 1])
  expect(asked.releases).toEqual([])
  expect(runs).toEqual(['a', 'b', 'a', 'b', 'c'])
  await guard.close()
})

for (const [how, ends] of [
  ['obeys its signal', true],
  ['ignores its signal', false],
] as const) {
  test(`a drain that runs out of time under a handler that ${how}`, async () => {
    const abort = new AbortController()
    const { asked, clock, guard, logged } = troubled(
      ({ payload }, { signal }) => {
        if (payload === 'a') return
        return new Promise((_, reject) => {
          if (ends) signal.addEventListener('abort', () => reject(new Error('stopping')))
          abort.abort()
        })
      },
      {},
      batch,
    )
    const run = portOf(guard).run(['a', 'b', 'c'].map(suspect), { abort: abort.signal })
    expect(await clock.until(run)).toEqual([closing, closing, closing])
    // A handler that is still running keeps its claim.
    expect(asked.releases.map(({ as }) => as)).toEqual(ends ? Array(3).fill('given-back') : [])
    expect(logged.map(({ level }) => level)).toEqual(ends ? [] : ['warn', 'warn', 'warn'])
    if (ends) await guard.close()
  })
}

test('the rest of a split batch is returned when the consumer stops', async () => {
  const stop = new AbortController()
  const runs: unknown[] = []
  const { asked, guard } = troubled(
    ({ payload }) => {
      runs.push(payload)
      if (payload !== 'b') return
      stop.abort()
      throw new Error('bad one')
    },
    {},
    batch,
  )
  const settlements = await portOf(guard).run(['a', 'b', 'c'].map(suspect), { stop: stop.signal })
  expect(settlements).toEqual([closing, closing, closing])
  expect(runs).toEqual(['a', 'b'])
  expect(asked.releases.map(({ as }) => as)).toEqual(Array(3).fill('given-back'))
  await guard.close()
})

test.each([
  [new StoreUnavailableError('down'), 0],
  [new TypeError('a bug'), 1],
])(
  'a transaction that cannot begin (%s) counts no attempt, and an unexpected error is logged',
  async (error, errors) => {
    const { asked, guard, logged } = troubled(
      () => undefined,
      { session: () => ({ begin: () => Promise.reject(error) }) },
      batch,
    )
    const down = { kind: 'defer', reason: 'store-down', error }
    expect(await guard.processBatch(['a', 'b'].map(suspect))).toMatchObject([down, down])
    expect(asked.releases.map(({ as }) => as)).toEqual(['given-back', 'given-back'])
    expect(logged.filter(({ level }) => level === 'error')).toHaveLength(errors)
    await guard.close()
  },
)
