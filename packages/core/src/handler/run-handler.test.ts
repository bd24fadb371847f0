import { getEventListeners, once } from 'node:events'
import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { ABORT_GRACE_MS, stopSignals } from '../concurrency/stop-signals.ts'
import { Clock } from '../fixtures/clock.ts'
import { silent } from '../fixtures/inbox.ts'
import { LeaseLostError } from '../model/errors.ts'
import type { HandlerContext } from '../options/options.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import { HandlerLimits, type HandlerScope, runHandler, type TimedEnd } from './run-handler.ts'

const never = (): Promise<never> => new Promise(() => undefined)

type Call = (context: HandlerContext<unknown>) => unknown

/** How a handler runs that takes no event. */
const runOf = (call: Call, leaseLost?: AbortSignal) => ({
  toEvent: () => undefined,
  handler: (_: undefined, context: HandlerContext<unknown>) => call(context),
  leaseLost,
})

function scopeOf(clock: Clock, drain: AbortSignal | undefined, isTimed = true) {
  const observe = isTimed ? () => undefined : undefined
  const { runtime } = clock
  const options = { runtime, observe, deadlineMs: 10_000, handlerLogger: silent }
  const revoked: unknown[] = []
  const revoke = (error: unknown): void => void revoked.push(error)
  const scope: HandlerScope = {
    ...{ options: options as unknown as ResolvedOptions, signals: stopSignals([], drain) },
    ...{ hold: () => undefined, transaction: { tx: undefined, revoke } },
  }
  return { scope, revoked }
}

function start(call: Call) {
  const clock = new Clock()
  const drain = new AbortController()
  const lost = new AbortController()
  const { scope, revoked } = scopeOf(clock, drain.signal)
  const end = runHandler(scope, runOf(call, lost.signal))
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

test('a transaction may run the handler itself, and what it does behind it is part of the run', async () => {
  const clock = new Clock()
  const { scope } = scopeOf(clock, undefined)
  const turns: unknown[] = []
  const runInside = (hasNext: boolean, behind: () => unknown): Promise<TimedEnd> => {
    const transaction: HandlerScope['transaction'] = {
      ...{ tx: undefined, revoke: () => undefined },
      runHandler: async (handler, turn) => {
        turns.push(turn)
        const value = await handler()
        await behind()
        return value
      },
    }
    const about = { attempt: 1, idempotencyKey: 'the id', key: 'k' }
    return runHandler({ ...scope, transaction }, { ...runOf(() => 5), about, hasNext })
  }
  expect(await runInside(true, () => undefined)).toMatchObject({ kind: 'returned', value: 5 })
  const flush = Promise.reject.bind(Promise, new Error('the flush fails'))
  expect(await runInside(false, flush)).toMatchObject({ kind: 'threw' })
  const eventId = 'the id'
  expect(turns).toEqual([
    { eventId, isLast: false },
    { eventId, isLast: true },
  ])
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
  const { scope, revoked } = scopeOf(clock, undefined, false)
  const run = (): never => {
    throw new Error('the handler ran')
  }
  const end = await runHandler(scope, runOf(run, AbortSignal.abort()))
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
    const { scope, revoked } = scopeOf(clock, drain.signal)
    const limits = new HandlerLimits(scope)
    const run = (call: Call): Promise<TimedEnd> =>
      new Promise((resolve) => limits.run(runOf(call), resolve))
    return { clock, drain, limits, revoked, run }
  }

  test('share one deadline and one timer', async () => {
    const { clock, limits, run } = share()
    const seen: Date[] = []
    for (const spentMs of [4_000, 5_000]) {
      const end = await run(({ deadlineAt }) => {
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
      runOf(() => 5),
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
      runOf(() => gate.promise),
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
