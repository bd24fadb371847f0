import { ConfigurationError, createGuard, type Delivery, RetryableError } from '@onceward/core'
import { type MemoryInbox, memoryInbox } from '@onceward/core/memory'
import { Clock } from '@onceward/testing/adapter'
import { describe, expect, test } from 'vitest'
import { consumer, setUp, silent } from './fixtures/billing.ts'
import { contextOf, idsOf, sqsRecord } from './fixtures/events.ts'
import { lambdaSqs } from './index.ts'
import { type Settled, throwIfUnfinished } from './invocation.ts'

const Records = [sqsRecord({ id: 'a' })]

interface Log {
  readonly fields: unknown
  readonly text: string | undefined
}

interface Work {
  readonly workMs?: number
  readonly inbox?: MemoryInbox<undefined>
}

/** A guard with a clock of its own, whose handler takes `workMs`. */
function onClock({ workMs = 0, inbox = memoryInbox() }: Work) {
  const clock = new Clock()
  const { runtime } = clock
  const logs: Log[] = []
  const log = (fields: unknown, text?: string) => void logs.push({ fields, text })
  const runs: { readonly leftMs: number }[] = []
  const guard = createGuard(
    {
      ...{ consumer, inbox, runtime },
      logger: { ...silent, warn: log, error: log },
    },
    async (_, { deadlineAt }) => {
      runs.push({ leftMs: deadlineAt.getTime() - clock.nowMs })
      await new Promise<void>((resolve) => void runtime.setTimer(resolve, workMs))
    },
  )
  /** The ids of the answer, and when it came. */
  const invoke = async (leftMs: number | undefined, marginMs?: number) => {
    const startedAtMs = clock.nowMs
    const context = { getRemainingTimeInMillis: () => Number(leftMs) + startedAtMs - clock.nowMs }
    const answering = lambdaSqs(guard, { marginMs })(
      { Records },
      leftMs === undefined ? undefined : context,
    ).then((answer) => ({ ids: idsOf(answer), afterMs: clock.nowMs - startedAtMs }))
    await clock.advance(100_000)
    return answering
  }
  return { clock, guard, invoke, logs, runs }
}

test('an invocation starts its messages with 50 ms for handlers, and with less it says why it does not', async () => {
  const enough = onClock({ workMs: 10 })
  expect(await enough.invoke(1_050, 1_000)).toEqual({ ids: [], afterMs: 10 })
  expect(enough.runs).toEqual([{ leftMs: 50 }])
  expect(enough.logs).toEqual([])
  const short = onClock({})
  expect(await short.invoke(1_049, 1_000)).toEqual({ ids: ['a'], afterMs: 0 })
  expect(short.runs).toEqual([])
  expect(short.logs).toEqual([
    {
      fields: { consumer, leftMs: 1_049, marginMs: 1_000 },
      text: expect.stringContaining('an invocation has no time for handlers'),
    },
  ])
})

test('a store that does not answer costs half of the margin, and the log says so', async () => {
  const hanging = { open: () => new Promise(() => undefined) }
  const { invoke, logs } = onClock({ inbox: hanging as never })
  expect(await invoke(5_000, 1_000)).toEqual({ ids: ['a'], afterMs: 4_500 })
  expect(logs).toContainEqual({
    fields: { consumer, marginMs: 1_000 },
    text: expect.stringContaining('an invocation ended before its runs'),
  })
})

// Red when what is due, such as a replay, runs as if the function had no end.
test.each([
  [0, [{ key: 'x', leftMs: 4_000 }]],
  [3_500, [{ key: 'x', leftMs: 500 }]],
  [3_700, []],
])(
  'what is due after %i ms of work has the deadline of the invocation, and does not start in its last tenth',
  async (workMs, expected) => {
    const clock = new Clock()
    const { runtime } = clock
    const inbox = memoryInbox()
    const runs: { readonly key: string; readonly leftMs: number }[] = []
    const guard = createGuard(
      { ...{ consumer, inbox, logger: silent, runtime }, isFatal: () => true },
      async ({ key }, { deadlineAt }) => {
        runs.push({ key, leftMs: deadlineAt.getTime() - clock.nowMs })
        if (key === 'x') throw new Error('never')
        await new Promise<void>((resolve) => void runtime.setTimer(resolve, workMs))
      },
    )
    const handler = lambdaSqs(guard, { marginMs: 1_000 })
    await handler({ Records: [sqsRecord({ id: 'x' })] })
    const [letter] = inbox.deadLetters()
    expect(letter && inbox.replay(letter.ref)).toBe(true)
    await clock.advance(60_000)
    const endsAtMs = clock.nowMs + 5_000
    const context = { getRemainingTimeInMillis: () => endsAtMs - clock.nowMs }
    const invoking = handler({ Records }, context)
    await clock.advance(5_000)
    expect(idsOf(await invoking)).toEqual([])
    expect(runs.slice(1)).toEqual([{ key: 'a', leftMs: 4_000 }, ...expected])
  },
)

describe('a configuration error', () => {
  test('of a handler is a failure of its message alone', async () => {
    const guard = createGuard({ consumer, inbox: memoryInbox(), logger: silent }, ({ key }) => {
      if (key === 'a') throw new ConfigurationError('of another library')
    })
    const both = { Records: [sqsRecord({ id: 'a' }), sqsRecord({ id: 'b' })] }
    expect(idsOf(await lambdaSqs(guard)(both, contextOf(9_000)))).toEqual(['a'])
  })

  test('of the store fails the function', async () => {
    const open = () => Promise.reject(new ConfigurationError('run migrate'))
    const { guard } = setUp({ inbox: { open } })
    const invoking = lambdaSqs(guard)({ Records }, contextOf(9_000))
    await expect(invoking).rejects.toThrow(ConfigurationError)
  })
})

describe('the error for messages that are not done', () => {
  const delivery = {} as Delivery
  const done: Settled = { delivery, settlement: { kind: 'ack', by: 'processed' }, isDone: true }
  const open = (settlement: Settled['settlement']): Settled => ({
    ...{ delivery, settlement, isDone: false },
  })
  const until = 0 as never
  const error = new Error('not now')

  test.each([
    [undefined, 'its outcome was not known in time', undefined],
    [{ kind: 'defer', reason: 'failed', until, error }, 'defer, failed', error],
    [
      { kind: 'defer', reason: 'in-progress', until, cause: 'held-by-lease' },
      'defer, in-progress, held-by-lease',
      undefined,
    ],
    [{ kind: 'dead-letter', reason: 'fatal', error }, 'dead-letter, fatal', error],
  ] as const)('describes the first of them: %j', (settlement, text, cause) => {
    const settled = [done, open(settlement), open({ kind: 'abandon', reason: 'closing' })]
    let thrown: unknown
    try {
      throwIfUnfinished(settled)
    } catch (caught) {
      thrown = caught
    }
    expect(thrown).toBeInstanceOf(RetryableError)
    expect(thrown).toMatchObject({
      message: `2 of 3 messages are not done, so that Lambda must send them again. The first: ${text}.`,
      cause,
    })
  })

  test('is not thrown when all are done', () => {
    expect(() => throwIfUnfinished([done])).not.toThrow()
    expect(() => throwIfUnfinished([])).not.toThrow()
  })
})
