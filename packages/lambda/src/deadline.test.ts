import { createGuard, FatalError, RetryableError } from '@onceward/core'
import { memoryInbox } from '@onceward/core/memory'
import { Clock } from '@onceward/testing/adapter'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { consumer, setUp, silent } from './fixtures/billing.ts'
import { contextOf, idsOf, sqsRecord } from './fixtures/events.ts'
import { type LambdaSqsOptions, lambdaSqs, type VisibilityChange } from './index.ts'

describe('the deadline', () => {
  test('of a handler is what the context has left, less the margin', async () => {
    const deadlines: number[] = []
    const guard = createGuard(
      { consumer, inbox: memoryInbox(), logger: silent },
      async (_event, { deadlineAt }) => void deadlines.push(deadlineAt.getTime() - Date.now()),
    )
    await lambdaSqs(guard, { marginMs: 2_000 })({ Records: [sqsRecord()] }, contextOf(9_000))
    expect(deadlines[0]).toBeGreaterThan(6_500)
    expect(deadlines[0]).toBeLessThanOrEqual(7_000)
  })

  test('cuts off a handler, and the messages that were not started are given back uncounted', async () => {
    const { guard, inbox, effects } = setUp({ concurrency: 1 })
    const Records = [
      sqsRecord({ id: 'a' }),
      sqsRecord({ id: 'b', body: { does: 'hangs' } }),
      sqsRecord({ id: 'c' }),
    ]
    const startedAt = Date.now()
    const context = contextOf(2_700)
    expect(idsOf(await lambdaSqs(guard, { marginMs: 2_400 })({ Records }, context))).toEqual([
      'b',
      'c',
    ])
    expect(Date.now() - startedAt).toBeLessThan(2_690)
    expect(effects).toEqual(['a'])
    expect(inbox.deadLetters()).toEqual([])
    await guard.close()
  })

  test('of a function with a short timeout leaves handlers half of it', async () => {
    const leftMs: number[] = []
    const { runtime } = new Clock()
    const guard = createGuard(
      { consumer, inbox: memoryInbox(), logger: silent, runtime },
      async (_event, { deadlineAt }) => void leftMs.push(deadlineAt.getTime() - runtime.now()),
    )
    const context = { getRemainingTimeInMillis: () => 1_000 }
    expect(idsOf(await lambdaSqs(guard)({ Records: [sqsRecord()] }, context))).toEqual([])
    expect(leftMs).toEqual([500])
  })

  test('property: without time for a handler nothing starts, no attempt is counted, and the log says why', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: -5_000, max: 1_040 }), async (leftMs) => {
        const [errors, started]: [unknown[], string[]] = [[], []]
        const guard = createGuard(
          {
            ...{ consumer, inbox: memoryInbox() },
            logger: { ...silent, error: (_: unknown, text?: string) => void errors.push(text) },
          },
          async ({ key }) => void started.push(key),
        )
        const handler = lambdaSqs(guard, { marginMs: 1_000 })
        const Records = [sqsRecord({ id: 'a' }), sqsRecord({ id: 'b' })]
        const context = { getRemainingTimeInMillis: () => leftMs }
        expect(idsOf(await handler({ Records }, context))).toEqual(['a', 'b'])
        expect(started).toEqual([])
        expect(errors).toEqual([expect.stringContaining('raise the timeout of the function')])
      }),
      { numRuns: 50 },
    )
  })

  test('holds although a store never answers, and what is known by then is answered', async () => {
    const memory = memoryInbox()
    const warnings: unknown[] = []
    const inbox = {
      open: async (...args: Parameters<typeof memory.open>) => {
        const session = await memory.open(...args)
        const begin = session.begin.bind(session)
        return Object.assign(session, {
          begin: (request: Parameters<typeof begin>[0]) =>
            'events' in request.claim &&
            JSON.stringify(request.claim.events, (_, each) =>
              typeof each === 'bigint' ? 0 : each,
            ).includes('"key":"b"')
              ? new Promise<never>(() => undefined)
              : begin(request),
        })
      },
    }
    const logger = { ...silent, warn: (...args: unknown[]) => void warnings.push(args[1]) }
    const { guard } = setUp({ inbox, logger })
    const Records = [sqsRecord({ id: 'a' }), sqsRecord({ id: 'b' })]
    expect(idsOf(await lambdaSqs(guard, { marginMs: 200 })({ Records }, contextOf(500)))).toEqual([
      'b',
    ])
    expect(warnings).toEqual([expect.stringContaining('an invocation ended before its runs')])
  })
})

// A timer that does not keep the process alive would still run when the process thaws.
test('a guard of a function has no timers between invocations, not even for background work', async () => {
  const clock = new Clock()
  const { guard } = setUp({ runtime: clock.runtime })
  const handler = lambdaSqs(guard)
  expect(idsOf(await handler({ Records: [sqsRecord({ id: 'a' })] }))).toEqual([])
  expect(clock.timers).toBe(0)
})

test('an order of the guard holds over the whole event, however large it is', async () => {
  const orderingKey = ({ payload }: { readonly payload: { readonly lane?: string } }) =>
    payload.lane
  const { guard, effects } = setUp({ orderingKey })
  const Records = [
    sqsRecord({ id: 'first', body: { lane: 'x', does: 'fails' } }),
    ...Array.from({ length: 150 }, (_, n) => sqsRecord({ id: `m${n}` })),
    sqsRecord({ id: 'last', body: { lane: 'x' } }),
  ]
  expect(idsOf(await lambdaSqs(guard)({ Records }))).toEqual(['first', 'last'])
  expect(effects).toHaveLength(150)
  await guard.close()
})

test('nothing of the guard is left on the event loop after the return', async () => {
  const { guard } = setUp()
  const timers = (): number =>
    process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
  const before = timers()
  await lambdaSqs(guard)(
    { Records: [sqsRecord(), sqsRecord({ body: { does: 'fails' } })] },
    contextOf(60_000),
  )
  expect(timers()).toBe(before)
})

describe('changeVisibility', () => {
  test('gets each deferred message with the time until its event is due', async () => {
    const changes: unknown[] = []
    const { guard } = setUp({ retry: { baseMs: 60_000 } })
    const handler = lambdaSqs(guard, { changeVisibility: (change) => void changes.push(change) })
    await handler({
      Records: [sqsRecord({ id: 'a' }), sqsRecord({ id: 'b', body: { does: 'fails' } })],
    })
    expect(changes).toEqual([
      {
        queueUrl: 'https://sqs.eu-central-1.amazonaws.com/123456789012/orders',
        receiptHandle: 'handle-b',
        visibilityMs: expect.toSatisfy((ms: number) => ms >= 1_000 && ms <= 60_000),
      },
    ])
  })

  test('hides a message for one second at least and twelve hours at most, and only what is deferred', async () => {
    const changes: VisibilityChange[] = []
    const clock = new Clock()
    const retryMs = { a: 10, b: 5_000, c: 100_000_000, d: 5_000 }
    const guard = createGuard(
      {
        ...{ consumer, inbox: memoryInbox(), logger: silent, runtime: clock.runtime },
        retry: { maxMs: 43_200_000 },
      },
      async ({ key }) => {
        if (key === 'dead') throw new FatalError('never')
        throw new RetryableError('not now', { afterMs: retryMs[key as keyof typeof retryMs] })
      },
    )
    const { receiptHandle: _, ...unanswerable } = sqsRecord({ id: 'd' })
    const Records = [...['a', 'b', 'c', 'dead'].map((id) => sqsRecord({ id })), unanswerable]
    const handler = lambdaSqs(guard, {
      ...{ deadLetter: 'redrive', changeVisibility: (change) => void changes.push(change) },
    })
    expect(idsOf(await handler({ Records }))).toEqual(['a', 'b', 'c', 'dead', 'd'])
    expect(changes.map(({ receiptHandle, visibilityMs }) => [receiptHandle, visibilityMs])).toEqual(
      [
        ['handle-a', 1_000],
        ['handle-b', 5_000],
        ['handle-c', 43_200_000],
      ],
    )
  })

  // Red when the error is logged as it is: HTTP clients keep the request, with its credentials, in their errors.
  test('that fails is logged with how many failed, and nothing is logged without it or when it works', async () => {
    const config = { headers: { authorization: 'AWS4-HMAC-SHA256 IQoJ' } }
    const error = Object.assign(new Error('no'), { code: 'ECONNRESET', config })
    const { stack } = error
    const err = { type: 'Error', name: 'Error', message: 'no', code: 'ECONNRESET', stack }
    const given: readonly (readonly [LambdaSqsOptions['changeVisibility'], unknown[]])[] = [
      [undefined, []],
      [() => 'changed', []],
      [
        ({ receiptHandle }) => {
          if (receiptHandle !== 'handle-a') throw error
        },
        [{ failed: 2, err }],
      ],
    ]
    for (const [changeVisibility, expected] of given) {
      const warnings: unknown[] = []
      const warn = (fields: object, text: string): void => {
        if (text.startsWith('changeVisibility failed')) warnings.push(fields)
      }
      const logger = { ...silent, warn }
      const { guard } = setUp({ logger })
      const Records = ['a', 'b', 'c'].map((id) => sqsRecord({ id, body: { does: 'fails' } }))
      await lambdaSqs(guard, { changeVisibility })({ Records })
      expect(warnings).toEqual(expected)
    }
  })

  test('property: a change that hangs never takes the time that the answer needs', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.record({
          marginMs: fc.integer({ min: 100, max: 3_000 }),
          workMs: fc.integer({ min: 0, max: 10_000 }),
        }),
        async ({ marginMs, workMs }) => {
          const clock = new Clock()
          const { runtime } = clock
          const guard = createGuard(
            { ...{ consumer, inbox: memoryInbox(), logger: silent }, ...{ runtime } },
            () =>
              new Promise((_, reject) => {
                runtime.setTimer(() => reject(new Error('not now')), workMs)
              }),
          )
          const endsAtMs = clock.nowMs + 5_000
          const context = { getRemainingTimeInMillis: () => endsAtMs - clock.nowMs }
          const changeVisibility = () => new Promise(() => undefined)
          const handler = lambdaSqs(guard, { marginMs, changeVisibility })
          let answeredAtMs = Number.POSITIVE_INFINITY
          const invoking = handler({ Records: [sqsRecord({ id: 'a' })] }, context).then(
            (answer) => {
              answeredAtMs = clock.nowMs
              return answer
            },
          )
          await clock.advance(20_000)
          expect(idsOf(await invoking)).toEqual(['a'])
          expect(answeredAtMs).toBeLessThan(endsAtMs)
        },
      ),
      { numRuns: 50 },
    )
  })
})
