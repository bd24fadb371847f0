import { getEventListeners, once } from 'node:events'
import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { ABORT_GRACE_MS } from '../concurrency/stop-signals.ts'
import { Clock } from '../fixtures/clock.ts'
import { FatalError, LeaseLostError, RetryableError } from '../model/errors.ts'
import {
  assertStorable,
  HandlerLimits,
  RESULT_LIMIT_BYTES,
  runHandler,
  type TimedEnd,
  toResultText,
} from './run-handler.ts'

const never = (): Promise<never> => new Promise(() => undefined)

function start(call: (aborting: AbortController) => unknown) {
  const clock = new Clock()
  const drain = new AbortController()
  const lost = new AbortController()
  const revoked: unknown[] = []
  const end = runHandler(
    {
      runtime: clock.runtime,
      isTimed: true,
      deadlineMs: 10_000,
      drain: drain.signal,
      leaseLost: lost.signal,
      hold: () => undefined,
      revoke: (error) => revoked.push(error),
    },
    call,
  )
  return { clock, drain, end, lost, revoked }
}

test('returns what the handler returned or threw, synchronously too, and leaves no timer and no listener', async () => {
  const returned = start(() => 5)
  expect(await returned.end).toMatchObject({ kind: 'returned', value: 5 })
  expect(returned.clock.timers).toBe(0)
  for (const { signal } of [returned.drain, returned.lost]) {
    expect(getEventListeners(signal, 'abort')).toEqual([])
  }
  const threw = start(() => {
    throw undefined
  })
  expect(await threw.end).toMatchObject({ kind: 'threw', error: undefined })
  expect(threw.clock.timers).toBe(0)
})

test('at the deadline the transaction handle refuses before the signal aborts', async () => {
  const order: string[] = []
  const { clock, end, revoked } = start(({ signal }) => {
    signal.addEventListener('abort', () => order.push(`aborted after ${revoked.length} revoke`))
    return never()
  })
  clock.advance(10_000)
  expect(await end).toMatchObject({
    kind: 'deadline',
    error: { code: 'ONCEWARD_DEADLINE_EXCEEDED' },
  })
  expect(order).toEqual(['aborted after 1 revoke'])
})

test('a lost lease ends the run at once', async () => {
  const { end, lost, revoked } = start(never)
  lost.abort()
  expect(await end).toMatchObject({ kind: 'lease-lost' })
  expect(revoked[0]).toBeInstanceOf(LeaseLostError)
})

test('a lease that was lost before the turn of the event came starts no handler', async () => {
  const clock = new Clock()
  const { runtime } = clock
  const revoked: unknown[] = []
  const end = await runHandler(
    {
      ...{ runtime, isTimed: false, deadlineMs: 10_000, hold: () => undefined },
      leaseLost: AbortSignal.abort(),
      revoke: (error) => revoked.push(error),
    },
    () => {
      throw new Error('the handler ran')
    },
  )
  expect(end).toMatchObject({ kind: 'lease-lost', handlerMs: undefined })
  expect(revoked).toEqual([expect.any(LeaseLostError)])
  expect(clock.timers).toBe(0)
})

test('a drain aborts the signal and waits briefly for the handler to end', async () => {
  const polite = start(
    ({ signal }) =>
      new Promise((_, reject) => {
        signal.addEventListener('abort', () => reject(new Error('stopping')))
      }),
  )
  polite.drain.abort()
  expect(await polite.end).toMatchObject({ kind: 'drained', ended: true })
  const stubborn = start(never)
  stubborn.drain.abort()
  stubborn.clock.advance(ABORT_GRACE_MS)
  expect(await stubborn.end).toMatchObject({ kind: 'drained', ended: false })
})

test('a handler that finishes during a drain has finished normally', async () => {
  const gate = Promise.withResolvers<number>()
  const { drain, end } = start(() => gate.promise)
  drain.abort()
  gate.resolve(7)
  expect(await end).toMatchObject({ kind: 'returned', value: 7 })
})

describe('the handlers of one transaction', () => {
  function share() {
    const clock = new Clock()
    const drain = new AbortController()
    const { runtime } = clock
    const revoked: unknown[] = []
    const revoke = (error: unknown): void => void revoked.push(error)
    const hold = (): void => undefined
    const limited = { isTimed: true, deadlineMs: 10_000, drain: drain.signal }
    const bounds = { runtime, ...limited, hold, revoke }
    const limits = new HandlerLimits(bounds)
    const run = (call: Parameters<typeof limits.run>[1]): Promise<TimedEnd> =>
      new Promise((resolve) => limits.run(undefined, call, resolve))
    return { clock, drain, limits, revoked, run }
  }

  test('share one deadline and one timer', async () => {
    const { clock, limits, run } = share()
    const seen: Date[] = []
    for (const spentMs of [4_000, 5_000]) {
      const end = await run((_signal, deadlineAt) => {
        seen.push(deadlineAt)
        clock.advance(spentMs)
        expect(clock.timers).toBe(1)
      })
      expect(end).toMatchObject({ kind: 'returned', handlerMs: spentMs })
    }
    const last = run(never)
    clock.advance(1_000)
    expect(await last).toMatchObject({ kind: 'deadline' })
    expect(seen.map(Number)).toEqual([1_010_000, 1_010_000])
    limits.stop()
    expect(clock.timers).toBe(0)
  })

  // The error may be the one of a call that the deadline cut short, and timers count whole milliseconds.
  test.each([
    [3_998, false],
    [3_999, true],
  ])(
    'an error %i ms after the other handler is late by the deadline of both: %s',
    async (ms, isLate) => {
      const { clock, limits, run } = share()
      await run(() => clock.advance(6_000))
      const error = new Error('statement timeout')
      const end = await run(() => {
        clock.advance(ms)
        throw error
      })
      expect(end).toMatchObject({ kind: 'threw', error, handlerMs: ms })
      expect('late' in end).toBe(isLate)
      limits.stop()
    },
  )

  test('end before their start returns if they are synchronous', () => {
    const { limits } = share()
    const ends: TimedEnd[] = []
    limits.run(
      undefined,
      () => 5,
      (end) => ends.push(end),
    )
    expect(ends).toMatchObject([{ kind: 'returned', value: 5 }])
    limits.stop()
  })

  test('are left alone by a drain and by the deadline once they have ended', async () => {
    const { clock, drain, limits, revoked, run } = share()
    let signal: AbortSignal | undefined
    await run((aborting) => {
      signal = aborting.signal
    })
    drain.abort()
    clock.advance(10_000)
    expect(signal?.aborted).toBe(false)
    // The transaction is about to commit.
    expect(revoked).toEqual([])
    limits.stop()
    expect(clock.timers).toBe(0)
  })

  test('end once, however late one returns after its deadline', async () => {
    const { clock, limits } = share()
    const gate = Promise.withResolvers<void>()
    const ends: TimedEnd[] = []
    limits.run(
      undefined,
      () => gate.promise,
      (end) => ends.push(end),
    )
    clock.advance(10_000)
    gate.resolve()
    await turn()
    expect(ends).toMatchObject([{ kind: 'deadline' }])
    limits.stop()
  })

  test('may start after the deadline or a drain has come before the first of them', async () => {
    const late = share()
    late.clock.advance(10_000)
    expect(await late.run(never)).toMatchObject({ kind: 'deadline' })
    late.limits.stop()
    const stopping = share()
    stopping.drain.abort()
    const polite = stopping.run(({ signal }) =>
      once(signal, 'abort').then(() => Promise.reject(signal.reason)),
    )
    expect(await polite).toMatchObject({ kind: 'drained', ended: true })
    stopping.limits.stop()
  })

  test('are interrupted one by one if they start after the deadline, or during a drain', async () => {
    const { clock, limits, run } = share()
    await run(() => clock.advance(10_000))
    expect(await run(never)).toMatchObject({ kind: 'deadline' })
    const other = share()
    other.drain.abort()
    const drained = other.run(({ signal }) => once(signal, 'abort'))
    expect(await drained).toMatchObject({ kind: 'returned' })
    limits.stop()
    other.limits.stop()
  })
})

describe('a return value', () => {
  const shared = { cents: 5 }
  const endless: Record<string, unknown> = { list: [] }
  endless['list'] = [endless]
  // With its two quotation marks.
  const longest = 'x'.repeat(RESULT_LIMIT_BYTES - 2)
  const nested = (levels: number): unknown =>
    JSON.parse(`${'['.repeat(levels - 1)}{}${']'.repeat(levels - 1)}`)

  test.each<[unknown, string]>([
    [null, 'null'],
    [{ lines: [1, 'two', false, null, [3]] }, '{"lines":[1,"two",false,null,[3]]}'],
    [{ kept: 1, left: undefined }, '{"kept":1}'],
    [Object.assign(Object.create(null), { cents: 5 }), '{"cents":5}'],
    [[shared, shared], '[{"cents":5},{"cents":5}]'],
    [longest, JSON.stringify(longest)],
    [nested(1_000), JSON.stringify(nested(1_000))],
  ])('of plain JSON is stored (%#)', (value, text) => {
    expect(toResultText(value)).toBe(text)
    expect(() => assertStorable(value)).not.toThrow()
  })

  test('of nothing is allowed without a transaction', () => {
    expect(() => assertStorable(undefined)).not.toThrow()
  })

  test.each<[unknown, string]>([
    [{ rows: [1, () => 1] }, 'has a function at $.rows[1]'],
    [[1n], 'has a bigint at $[0]'],
    [{ at: new Date(0) }, 'has an object that is not plain at $.at'],
    [[[Number.NaN]], 'has a number that JSON cannot store at $[0][0]'],
    [endless, 'refers to itself at $.list[0]'],
    [[undefined], 'has a undefined at $[0]'],
    [`${longest}x`, `is ${RESULT_LIMIT_BYTES + 1} bytes of JSON`],
    // Red when the RangeError of the engine comes out.
    [nested(1_001), 'nests deeper than 1000 levels'],
    [nested(20_000), 'nests deeper than 1000 levels'],
  ])('that is not plain JSON of the size allowed is named (%#)', (value, why) => {
    expect(() => toResultText(value)).toThrow(RetryableError)
    expect(() => toResultText(value)).toThrow(why)
    // Without a transaction the effect has happened, so the event must not run again.
    // Red before: the dead letter said that nothing was committed, where the effect had happened.
    expect(() => assertStorable(value)).toThrow(
      expect.objectContaining({
        constructor: FatalError,
        message: expect.stringMatching(/and its effects may have happened\. Return plain JSON/),
      }),
    )
    expect(() => assertStorable(value)).toThrow(why)
  })
})
