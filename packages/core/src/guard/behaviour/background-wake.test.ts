import { setImmediate as turn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { backgroundOnDemand, startBackground } from '../../background/background.ts'
import { type Background, POLL_LIMIT } from '../../background/parked.ts'
import { stopSignals } from '../../concurrency/stop-signals.ts'
import { PauseValve } from '../../concurrency/valve.ts'
import { Clock } from '../../fixtures/clock.ts'
import { changedInbox, silent } from '../../fixtures/inbox.ts'
import { memoryInbox, toDelivery } from '../../memory/index.ts'
import { FatalError, RetryableError } from '../../model/errors.ts'
import { portOf } from '../../model/guard-port.ts'
import type { DueEvent } from '../../model/inbox.ts'
import { createGuard } from '../guard.ts'

interface Answers {
  readonly due?: () => Promise<readonly DueEvent[]>
  readonly figures?: () => Promise<unknown>
  readonly heartbeat?: () => Promise<void>
  readonly runsLater?: boolean
}

const diagnosed = (error: unknown): string => (error instanceof TypeError ? 'store' : 'other')

/** A context of background work whose answers the test gives, with the times of the searches since the start. */
function contextOf({ due, figures, heartbeat, runsLater = false }: Answers) {
  const clock = new Clock()
  const startedAtMs = clock.runtime.monotonic()
  const searches: number[] = []
  const warnings: object[] = []
  const warn = (fields: object): void => void warnings.push(fields)
  const note = async (): Promise<readonly DueEvent[]> => {
    searches.push(clock.runtime.monotonic() - startedAtMs)
    return (await due?.()) ?? []
  }
  const session = {
    ...{ due: note, sweep: async () => undefined, diagnose: diagnosed },
    ...(figures && { figures }),
    ...(heartbeat && { heartbeat }),
  }
  const valve = new PauseValve({ consumer: 'billing', logger: silent, runtime: clock.runtime })
  const context = {
    options: {
      valve,
      ...{ runtime: { ...clock.runtime, random: () => 0.5 }, logger: { ...silent, warn } },
      ...(runsLater ? { callerRetries: { runsLater } } : {}),
    },
    publisher: { publishDue: async () => undefined },
    stores: {
      engine: { session, slots: { size: 8 }, lateReleases: { flush: async () => undefined } },
    },
  }
  const background = context as unknown as Background
  return { background, clock, pass: passing(clock), searches, warnings }
}

/** Lets what has begun go on, then time in steps of 50 ms. */
function passing(clock: Clock) {
  const settle = async (): Promise<void> => {
    for (let turns = 0; turns < 10; turns += 1) await turn()
  }
  return async (ms: number): Promise<void> => {
    await settle()
    for (let passedMs = 0; passedMs < ms; passedMs += 50) {
      clock.advance(50)
      await settle()
    }
  }
}

test('a search that is asked for takes the place of the next one', async () => {
  const { background, pass, searches } = contextOf({})
  const { wake, stop } = startBackground(background)
  await pass(100)
  wake()
  await pass(5_900)
  expect(searches).toEqual([100, 5_100])
  await stop()
  wake()
  await pass(6_000)
  expect(searches).toEqual([100, 5_100])
})

test.each([
  { what: 'follows it directly, once', stops: false, expected: [500, 600, 5_600] },
  { what: 'is none after a stop', stops: true, expected: [500] },
])('a search that is asked for during another one $what', async ({ stops, expected }) => {
  const gate = Promise.withResolvers<void>()
  const due = async (): Promise<readonly DueEvent[]> => {
    if (searches.length === 1) await gate.promise
    return []
  }
  const { background, pass, searches } = contextOf({ due })
  const { wake, stop } = startBackground(background)
  await pass(500)
  wake()
  wake()
  await pass(100)
  expect(searches).toEqual([500])
  const stopping = stops ? stop() : undefined
  gate.resolve()
  await pass(6_000)
  expect(searches).toEqual(expected)
  await (stopping ?? stop())
})

// Red when a failing heartbeat is reported every time, or during an outage that others report.
test('a heartbeat is sent every 30 s, and one that is refused is reported once', async () => {
  const beats: number[] = []
  const failures: readonly (Error | undefined)[] = [
    ...[undefined, new TypeError('down'), new Error('permission denied'), new Error('again')],
    ...[undefined, new Error('permission denied')],
  ]
  const { background, clock, pass, warnings } = contextOf({
    heartbeat: async () => {
      beats.push(clock.runtime.monotonic())
      const failure = failures[beats.length - 1]
      if (failure !== undefined) throw failure
    },
  })
  const { stop } = startBackground(background)
  await pass(150_500)
  expect(beats.map((atMs) => atMs - Number(beats[0]))).toEqual(
    [0, 30, 60, 90, 120, 150].map((s) => s * 1_000),
  )
  expect(warnings).toMatchObject([
    { err: { message: 'permission denied' } },
    { err: { message: 'permission denied' } },
  ])
  await stop()
  await pass(60_000)
  expect(beats).toHaveLength(6)
})

test('what waits is looked at every five seconds by a guard that runs its events later', async () => {
  const figures = [{ parked: 3, parkedForMs: 70 }, undefined, { parked: 1, parkedForMs: 0 }]
  let looks = 0
  const { background, pass } = contextOf({
    runsLater: true,
    figures: async () => {
      looks += 1
      const found = figures.shift()
      if (found === undefined) throw new Error('the database is down')
      return found
    },
  })
  const { backlog, stop } = startBackground(background)
  expect(backlog()).toBeUndefined()
  await pass(500)
  expect(backlog()).toEqual({ events: 3, dueForMs: 70 })
  await pass(4_950)
  expect(looks).toBe(1)
  await pass(50)
  expect(backlog()).toBeUndefined()
  await pass(5_000)
  expect(backlog()).toEqual({ events: 1, dueForMs: 0 })
  await stop()
})

test('an inbox without figures says nothing of what waits, and other guards do not look', async () => {
  const later = contextOf({ runsLater: true })
  const started = startBackground(later.background)
  await later.pass(6_000)
  expect(started.backlog()).toBeUndefined()
  expect(later.warnings).toEqual([])
  await started.stop()
  let looks = 0
  const figures = async (): Promise<object> => {
    looks += 1
    return { parked: 1, parkedForMs: 0 }
  }
  const { background, pass } = contextOf({ figures })
  const { backlog, stop } = startBackground(background)
  await pass(6_000)
  expect([looks, backlog()]).toEqual([0, undefined])
  await stop()
})

test.each([
  { found: 0, againAfterMs: 5_000 },
  { found: POLL_LIMIT, againAfterMs: 0 },
])(
  'without timers, a search that ended $found events is followed after $againAfterMs ms',
  async ({ found, againAfterMs }) => {
    const letters = [
      Array.from({ length: found }, () => ({ what: 'publish', delivery: {} }) as DueEvent),
    ]
    const { background, clock, searches } = contextOf({ due: async () => letters.shift() ?? [] })
    const work = backgroundOnDemand(background)
    const doDue = (): Promise<void> => work(stopSignals([]))
    clock.advance(500)
    await doDue()
    if (againAfterMs > 0) {
      clock.advance(againAfterMs - 1)
      await doDue()
      expect(searches).toEqual([500])
      clock.advance(1)
    }
    await doDue()
    expect(searches).toEqual([500, 500 + againAfterMs])
  },
)

type Runs = Readonly<Record<string, () => Promise<void> | void>>

/** A guard whose replayed events run as the test says, with the times of its searches since the replay. */
async function replayed(names: readonly string[], runs: Runs, concurrency = 8) {
  const clock = new Clock()
  const runtime = { ...clock.runtime, random: () => 0.5 }
  const memory = memoryInbox()
  const searches: number[] = []
  const started: string[] = []
  let slow: Promise<void> | undefined
  let startedAtMs = 0
  const inbox = changedInbox(memory, (session) => ({
    due: async (limit) => {
      searches.push(runtime.monotonic() - startedAtMs)
      await slow
      return session.due(limit)
    },
  }))
  let isReplayed = false
  const guard = createGuard(
    { consumer: 'billing', inbox, logger: silent, runtime, concurrency },
    async ({ payload }) => {
      if (!isReplayed) throw new FatalError('no shop')
      started.push(String(payload))
      await runs[String(payload)]?.()
    },
  )
  for (const name of names) await guard.process(toDelivery(name, { messageId: name }))
  for (const { ref } of memory.deadLetters()) memory.replay(ref)
  isReplayed = true
  return {
    ...{ clock, guard, inbox, searches, started },
    begin: () => {
      startedAtMs = runtime.monotonic()
      searches.length = 0
    },
    slowDown: (gate: Promise<void> | undefined) => {
      slow = gate
    },
    pass: passing(clock),
  }
}

/** Fails at its first run, and is due again after this time. */
function failing(afterMs: number): () => void {
  let runs = 0
  return () => {
    runs += 1
    if (runs === 1) throw new RetryableError('later', { afterMs })
  }
}

test.each([[['a', 'b', 'c']], [['c', 'b', 'a']]])(
  'each retry within five seconds has a search of its own, and later ones wait for the interval: %j',
  async (names) => {
    const runs = { a: failing(1_000), b: failing(2_500), c: failing(9_000) }
    const { begin, guard, pass, searches, started } = await replayed(names, runs)
    begin()
    await pass(14_000)
    expect(searches).toEqual([500, 1_500, 3_000, 8_000, 13_000])
    expect(started).toEqual([...names, 'a', 'b', 'c'])
    await guard.close()
  },
)

test('a retry that is due after the next search does not put that search off', async () => {
  const gate = Promise.withResolvers<void>()
  const retry = failing(4_000)
  const runs = { a: async () => gate.promise.then(retry) }
  const { begin, guard, pass, searches } = await replayed(['a'], runs)
  begin()
  await pass(3_000)
  gate.resolve()
  await pass(5_000)
  expect(searches).toEqual([500, 5_500, 7_000])
  await guard.close()
})

test('a run that fails during a search gets a search after it and one at its time', async () => {
  const [gate, searching] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const retry = failing(1_000)
  const runs = { a: async () => gate.promise.then(retry) }
  const { begin, guard, pass, searches, slowDown } = await replayed(['a'], runs)
  begin()
  await pass(500)
  slowDown(searching.promise)
  await pass(5_000)
  gate.resolve()
  await pass(100)
  slowDown(undefined)
  searching.resolve()
  await pass(6_000)
  expect(searches).toEqual([500, 5_500, 5_600, 6_500, 11_500])
  await guard.close()
})

test('a parked event that waits for a slot is not started after the close of its guard', async () => {
  const gate = Promise.withResolvers<void>()
  const runs = { a: () => gate.promise, b: () => gate.promise }
  const { begin, guard, pass, started } = await replayed(['a', 'b'], runs, 1)
  begin()
  await pass(1_000)
  expect(started).toHaveLength(1)
  const closing = guard.close()
  await pass(100)
  gate.resolve()
  await closing
  expect(started).toHaveLength(1)
})

test('without timers, an event that dies is published by the next call', async () => {
  const dies = (): never => {
    throw new FatalError('still no shop')
  }
  const { begin, clock, guard, searches } = await replayed(['a'], { a: dies })
  const doDue = portOf(guard).onDemand()
  await doDue()
  begin()
  clock.advance(500)
  await doDue()
  await doDue()
  expect(searches).toEqual([500, 500])
  await doDue()
  expect(searches).toEqual([500, 500])
  await guard.close()
})
