import { AsyncLocalStorage } from 'node:async_hooks'
import { setImmediate as turn } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { systemRuntime } from '../concurrency/system-runtime.ts'
import { withTimeout } from '../concurrency/timeout.ts'
import { PauseValve } from '../concurrency/valve.ts'
import { Clock } from '../fixtures/clock.ts'
import { silent } from '../fixtures/inbox.ts'
import { createGuard } from '../guard/guard.ts'
import { memoryInbox, toDelivery } from '../memory/index.ts'
import { FatalError } from '../model/errors.ts'
import { portOf } from '../model/guard-port.ts'
import type { DueEvent, SweepStep } from '../model/inbox.ts'
import { startBackground } from './background.ts'
import { type Background, POLL_LIMIT } from './parked.ts'

const MINUTE_MS = 60_000

const rejections: unknown[] = []
const hear = (reason: unknown): void => void rejections.push(reason)
beforeEach(() => {
  rejections.length = 0
  process.on('unhandledRejection', hear)
})
afterEach(() => {
  process.off('unhandledRejection', hear)
  expect(rejections).toEqual([])
})

type Task = 'due' | 'sweep' | 'flush'

/** The background work of a guard whose answers the test gives, with the time of each call since the start. */
function start(random: number, answers: Partial<Record<Task, () => Promise<unknown>>> = {}) {
  const clock = new Clock()
  const startedAtMs = clock.runtime.monotonic()
  const calls: Record<Task, number[]> = { due: [], sweep: [], flush: [] }
  const warnings: object[] = []
  const called = (task: Task, otherwise: unknown) => async (): Promise<unknown> => {
    calls[task].push(clock.runtime.monotonic() - startedAtMs)
    return (await answers[task]?.()) ?? otherwise
  }
  const valve = new PauseValve({ consumer: 'billing', logger: silent, runtime: clock.runtime })
  const context = {
    options: {
      valve,
      runtime: { ...clock.runtime, random: () => random },
      logger: { ...silent, warn: (fields: object) => void warnings.push(fields) },
    },
    publisher: { publishDue: async () => undefined },
    stores: {
      engine: {
        session: { due: called('due', []), sweep: called('sweep', undefined) },
        lateReleases: { flush: called('flush', undefined) },
      },
    },
  }
  const { stop } = startBackground(context as unknown as Background)
  const pass = async (ms: number, stepMs = 50): Promise<void> => {
    for (let passedMs = 0; passedMs < ms; passedMs += stepMs) {
      clock.advance(stepMs)
      await turn()
    }
  }
  return { clock, calls, warnings, stop, pass }
}

const finished: SweepStep = { finished: true, deleted: 0 }
const unfinished: SweepStep = { finished: false, deleted: 0 }
const letters = (count: number): readonly DueEvent[] =>
  Array.from({ length: count }, () => ({ what: 'publish', delivery: {} }) as DueEvent)

test.each([
  { random: 0, firstMs: 0, pollMs: 3_750, restMs: 5 * MINUTE_MS },
  { random: 0.5, firstMs: 500, pollMs: 5_000, restMs: 10 * MINUTE_MS },
  { random: 0.9, firstMs: 900, pollMs: 6_000, restMs: 14 * MINUTE_MS },
])(
  'with random() at $random parked events are looked for every $pollMs ms and a sweep follows the last one after $restMs ms',
  async (drawn) => {
    const { random, firstMs, pollMs, restMs } = drawn
    const steps = [unfinished, unfinished, finished, unfinished]
    const { calls, stop, pass } = start(random, { sweep: async () => steps.shift() })
    await pass(firstMs + 20_000)
    const first = Math.max(firstMs, 50)
    expect(calls.due.slice(0, 3)).toEqual([first, first + pollMs, first + 2 * pollMs])
    expect(calls.flush.slice(0, 3)).toEqual([first, first + 1_000, first + 2_000])
    expect(calls.sweep).toEqual([first, first + 200, first + 400])
    await pass(restMs - 20_000 + 1_000)
    expect(calls.sweep.slice(3)).toEqual([first + 400 + restMs, first + 600 + restMs])
    await stop()
  },
)

test.each([
  { found: POLL_LIMIT - 1, pauseMs: 5_000 },
  { found: POLL_LIMIT, pauseMs: 50 },
])(
  'a poll that ended $found events is followed by the next one after $pauseMs ms',
  async (drawn) => {
    const { found, pauseMs } = drawn
    const answers = [letters(found)]
    const { calls, stop, pass } = start(0.5, { due: async () => answers.shift() ?? [] })
    await pass(6_000)
    expect(calls.due.slice(0, 2)).toEqual([500, 500 + pauseMs])
    await stop()
  },
)

test.each([
  { task: 'due', nextMs: 5_000 },
  { task: 'sweep', nextMs: 10 * MINUTE_MS },
] as const)('$task that fails is reported and called again', async ({ task, nextMs }) => {
  const { calls, warnings, stop, pass } = start(0.5, {
    [task]: () => Promise.reject(new Error('the database is down')),
  })
  await pass(nextMs + 1_000)
  expect(calls[task]).toEqual([500, 500 + nextMs])
  expect(warnings).toEqual(Array(2).fill({ err: expect.anything() }))
  await stop()
})

test.each(['due', 'sweep', 'flush'] as const)(
  'the end waits for %s in progress, and leaves no timer',
  async (task) => {
    const gate = Promise.withResolvers<void>()
    const { clock, calls, stop, pass } = start(0.5, { [task]: () => gate.promise })
    await pass(500)
    expect(calls[task]).toHaveLength(1)
    let isOver = false
    const stopping = stop().then(() => {
      isOver = true
    })
    await turn()
    expect(isOver).toBe(false)
    gate.resolve()
    await stopping
    expect(clock.timers).toBe(0)
    await pass(20_000)
    expect(calls[task]).toHaveLength(1)
  },
)

test('the timers of the background do not keep the process alive', async () => {
  const kept: (boolean | undefined)[] = []
  const clock = new Clock()
  const { setTimer } = clock.runtime
  Object.assign(clock.runtime, {
    setTimer: ((callback, delayMs, options) => {
      kept.push(options?.keepAlive)
      return setTimer(callback, delayMs, options)
    }) satisfies typeof setTimer,
  })
  const context = { options: { runtime: clock.runtime }, stores: { engine: { session: {} } } }
  await startBackground(context as unknown as Background).stop()
  expect(new Set(kept)).toEqual(new Set([false]))
})

// Red (5.5 s and 10.5 s after the replay) when only the next search finds them.
test('a parked event runs again when its retry is due, and is published when it dies', async () => {
  const clock = new Clock()
  const runtime = { ...clock.runtime, random: () => 0.5 }
  const memory = memoryInbox()
  const times: (readonly [what: string, atMs: number])[] = []
  let startedAtMs = 0
  const note = (what: string): void => {
    times.push([what, runtime.monotonic() - startedAtMs])
  }
  const retry = { attempts: 2, baseMs: 400, maxMs: 400 }
  const common = { consumer: 'billing', inbox: memory, logger: silent, runtime, retry }
  const guard = createGuard(common, () => {
    note('run')
    throw times.length > 1 ? new Error('the payment service is down') : new FatalError('no shop')
  })
  const delivery = toDelivery('order', { messageId: 'order' })
  portOf(guard).registerPublisher(delivery.source, async () => note('published'))
  const settlement = await guard.process(delivery)
  expect(settlement).toMatchObject({ kind: 'dead-letter' })
  const [letter] = memory.deadLetters()
  expect(letter && memory.replay(letter.ref)).toBe(true)
  startedAtMs = runtime.monotonic()
  for (let passedMs = 0; passedMs < 12_000; passedMs += 50) {
    clock.advance(50)
    await turn()
  }
  expect(times.slice(1)).toEqual([
    ['run', 500],
    ['run', 800],
    ['published', expect.toSatisfy((atMs: number) => atMs <= 900)],
  ])
  await guard.close()
})

// Red when the work runs where it was started or woken: a replayed event had the tenant and the trace of another request.
test('the work runs outside of the request that started it, and of the one that woke it', async () => {
  const request = new AsyncLocalStorage<string>()
  const seen: (string | undefined)[] = []
  const searched = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const due = async (): Promise<readonly DueEvent[]> => {
    searched[seen.push(request.getStore()) - 1]?.resolve()
    return []
  }
  const session = { due, sweep: async () => undefined }
  const context = {
    options: {
      ...{ runtime: { ...systemRuntime, random: () => 0 }, logger: silent },
      valve: new PauseValve({ consumer: 'billing', logger: silent, runtime: systemRuntime }),
    },
    publisher: { publishDue: async () => undefined },
    stores: { engine: { session, lateReleases: { flush: async () => undefined } } },
  }
  const work = request.run('of tenant a', () => startBackground(context as unknown as Background))
  // The timers of the work do not keep the process.
  await withTimeout(systemRuntime, searched[0]?.promise ?? turn(), { call: 'it', budgetMs: 9_000 })
  request.run('of tenant b', () => work.wake())
  await withTimeout(systemRuntime, searched[1]?.promise ?? turn(), { call: 'it', budgetMs: 9_000 })
  await work.stop()
  expect(seen).toEqual([undefined, undefined])
})
