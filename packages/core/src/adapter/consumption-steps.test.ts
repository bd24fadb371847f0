import { getEventListeners } from 'node:events'
import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { ABORT_GRACE_MS } from '../concurrency/stop-signals.ts'
import { Clock } from '../fixtures/clock.ts'
import type { EpochMs } from '../model/brands.ts'
import type { Availability, GuardPort } from '../model/guard-port.ts'
import { type ConsumptionOptions, type LoopSignals, startConsumption } from './consumption.ts'
import { type WrapSignals, withConsumption } from './wrap.ts'

const DRAIN_MS = 5_000

/** A loop and a guard that do what the test says. */
function setUp(user?: AbortSignal) {
  const clock = new Clock()
  const calls: string[] = []
  const logged: [string, object][] = []
  const closing = new AbortController()
  const inHand = Promise.withResolvers<void>()
  const startup = Promise.withResolvers<void>()
  const world = {
    availability: { kind: 'available' } as Availability,
    outages: [] as { readonly dependency: 'inbox' | 'leases'; readonly error: unknown }[],
  }
  const log = (fields: object, text: string): void => void logged.push([text, fields])
  const port = {
    runtime: clock.runtime,
    closing: closing.signal,
    settings: { consumer: 'billing' },
    logger: { warn: log, error: log },
    availability: () => world.availability,
    outages: () => world.outages,
  } as unknown as GuardPort
  const receiver = {
    outage: undefined as { state: 'paused' | 'recovering'; reason: string } | undefined,
    notice: undefined as string | undefined,
    lastProgressAt: undefined as Date | undefined,
    start: () => {
      calls.push('start')
      return startup.promise
    },
    stop: async () => void calls.push('stop'),
  }
  const dispatcher = {
    inFlight: 2,
    clear: () => void calls.push('clear'),
    ended: () => inHand.promise,
  }
  const settling = { settleFailures: 1, notice: undefined as string | undefined }
  const finish = async (): Promise<void> => void calls.push('finish')
  let signals: LoopSignals | undefined
  const common = {
    ...{ port, drainMs: DRAIN_MS, queue: 'orders' },
    describe: (error: unknown) => `described ${String(error)}`,
  }
  const options: ConsumptionOptions = {
    ...{ ...common, signal: user },
    createLoop: (given) => {
      signals = given
      return { receiver, dispatcher, settling, finish }
    },
  }
  const told = (): LoopSignals => signals as LoopSignals
  const start = async () => {
    startup.resolve()
    return startConsumption(options)
  }
  return {
    ...{ clock, calls, logged, closing, inHand, startup, world, receiver, dispatcher, settling },
    ...{ common, finish, options, signals: told, start },
  }
}

/** What the loop has been told: start nothing more, and abort the handlers. */
const told = ({ signals }: ReturnType<typeof setUp>) => [
  signals().stop.aborted,
  signals().abort.aborted,
]

describe('a drain', () => {
  test('lets running handlers end, and aborts none of them if they end in time', async () => {
    const user = new AbortController()
    const made = setUp(user.signal)
    const consumption = await made.start()
    const drained = consumption.drain()
    expect(told(made)).toEqual([true, false])
    await turn()
    expect(made.calls).toEqual(['start', 'stop', 'clear'])
    expect(consumption.health().state).toBe('draining')
    made.inHand.resolve()
    await drained
    await consumption.stopped
    expect(told(made)).toEqual([true, false])
    expect(made.calls.slice(3)).toEqual(['finish'])
    expect([consumption.health().state, made.clock.timers]).toEqual(['stopped', 0])
    await consumption[Symbol.asyncDispose]()
    expect(made.calls.slice(4)).toEqual([])
    expect(getEventListeners(user.signal, 'abort')).toEqual([])
  })

  test('aborts handlers after its time, and ends without those that continue', async () => {
    const made = setUp()
    const consumption = await made.start()
    const drained = consumption[Symbol.asyncDispose]()
    made.clock.advance(DRAIN_MS - 1)
    await turn()
    expect(told(made)).toEqual([true, false])
    made.clock.advance(1)
    await turn()
    expect(told(made)).toEqual([true, true])
    made.clock.advance(ABORT_GRACE_MS - 1)
    await turn()
    expect(made.calls).not.toContain('finish')
    made.clock.advance(1)
    await drained
    expect(made.calls.at(-1)).toBe('finish')
  })

  test('begins with the signal of the user, also before the start', async () => {
    const user = new AbortController()
    const made = setUp(user.signal)
    const consumption = await made.start()
    user.abort()
    expect(told(made)).toEqual([true, false])
    made.inHand.resolve()
    await consumption.stopped
    await turn()
    for (const signal of [user.signal, made.closing.signal]) {
      expect(getEventListeners(signal, 'abort')).toEqual([])
    }
    const early = setUp(AbortSignal.abort())
    early.closing.abort()
    early.inHand.resolve()
    await (await early.start()).stopped
    expect(early.calls).toEqual(['stop', 'clear', 'finish'])
    // The user asked for it, so nobody is warned of the closed guard.
    expect(early.logged).toEqual([])
  })

  test('ends a start that gets no answer', async () => {
    const user = new AbortController()
    const made = setUp(user.signal)
    made.inHand.resolve()
    const starting = startConsumption(made.options)
    await turn()
    user.abort()
    await (await starting).stopped
    expect(made.calls).toEqual(['start', 'stop', 'clear', 'finish'])
  })
})

test('a start that fails lets go of everything, and a later close of the guard drains nothing', async () => {
  const made = setUp()
  made.startup.reject(new Error('no queue'))
  await expect(startConsumption(made.options)).rejects.toThrow('no queue')
  expect(made.calls).toEqual(['start', 'finish'])
  made.closing.abort()
  await turn()
  expect([made.calls.length, made.logged]).toEqual([2, []])
})

test('an error that ends the consumer is logged, named by health, and what `stopped` rejects with', async () => {
  const made = setUp()
  const consumption = await made.start()
  const error = new Error('access denied')
  made.signals().onEnd({ kind: 'fatal', error })
  made.signals().onEnd({ kind: 'fatal', error: new Error('another one') })
  made.inHand.resolve()
  await expect(consumption.stopped).rejects.toBe(error)
  const reason = 'described Error: access denied'
  expect(consumption.health()).toMatchObject({ state: 'stopped', reason })
  expect(made.logged).toEqual([
    [
      'the consumer stops: it cannot recover from this error',
      { queue: 'orders', consumer: 'billing', err: error },
    ],
  ])
})

describe('health', () => {
  test('of a consumer that receives has counts, and notices as its reason', async () => {
    const made = setUp()
    const consumption = await made.start()
    const counts = { inFlight: 2, settleFailures: 1 }
    expect(consumption.health()).toStrictEqual({ state: 'running', ...counts })
    made.receiver.notice = 'a topic waits'
    const lastProgressAt = new Date(5)
    made.receiver.lastProgressAt = lastProgressAt
    expect(consumption.health()).toEqual({
      ...{ state: 'running', ...counts, lastProgressAt },
      reason: 'a topic waits',
    })
    made.settling.notice = 'acks fail'
    expect(consumption.health().reason).toBe('a topic waits; acks fail')
  })

  test('of one that receives nothing names the cause, and each dependency that is down', async () => {
    const made = setUp()
    const consumption = await made.start()
    made.receiver.notice = 'a topic waits'
    made.receiver.outage = { state: 'recovering', reason: 'connection refused' }
    const broker = { dependency: 'broker', reason: 'connection refused' }
    expect(consumption.health()).toMatchObject({
      ...{ state: 'recovering', reason: 'connection refused', outages: [broker] },
    })
    made.world.outages = [{ dependency: 'leases', error: 'no Redis' }]
    const leases = { dependency: 'leases', reason: 'described no Redis' }
    expect(consumption.health().outages).toEqual([broker, leases])
    made.receiver.outage = { state: 'paused', reason: 'no Postgres' }
    expect(consumption.health()).toMatchObject({ state: 'paused', outages: [leases] })
  })
})

describe('a wrap', () => {
  function wrapping() {
    const made = setUp()
    const { dispatcher, finish, settling } = made
    const loop = {
      ...{ wrapped: { run: 'mine' }, dispatcher, settling, finish },
      outage: undefined as { state: 'recovering' | 'stopped'; reason: string } | undefined,
    }
    let progressed = (): void => undefined
    const createLoop = (signals: WrapSignals) => {
      progressed = signals.progressed
      return loop
    }
    const wrap = withConsumption({ ...made.common, createLoop })
    return { made, loop, wrap, progressed: () => progressed() }
  }

  test('has the health of its loop, unless the store is down', () => {
    const { loop, made, wrap, progressed } = wrapping()
    expect(wrap.run).toBe('mine')
    expect(wrap.consumption.health().state).toBe('running')
    loop.outage = { state: 'recovering', reason: 'rejoining' }
    progressed()
    const lastProgressAt = new Date(made.clock.runtime.now())
    const health = { state: 'recovering', reason: 'rejoining', lastProgressAt }
    expect(wrap.consumption.health()).toMatchObject(health)
    const retryAt = (made.clock.runtime.now() + 1_000) as EpochMs
    made.world.availability = { kind: 'down', retryAt, error: 'gone' }
    const paused = { state: 'paused', reason: 'described gone' }
    expect(wrap.consumption.health()).toMatchObject(paused)
    // Red when only a message ends the outage: a quiet queue brings none, and the wrap was paused for hours.
    made.clock.advance(1_000)
    expect(wrap.consumption.health()).toMatchObject(health)
    // Nothing comes until its user consumes again, whatever the store does.
    loop.outage = { state: 'stopped', reason: 'the user stopped it' }
    expect(wrap.consumption.health()).toMatchObject(loop.outage)
  })

  test('drains its unsettled deliveries', async () => {
    const { made, wrap } = wrapping()
    const drained = wrap.consumption.drain()
    await turn()
    expect(made.calls).toEqual(['clear'])
    made.inHand.resolve()
    await drained
    expect(made.calls.slice(1)).toEqual(['finish'])
  })
})
