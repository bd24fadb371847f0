import { setImmediate } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { Clock } from '../fixtures/clock.ts'
import { silent } from '../fixtures/inbox.ts'
import type { Received } from '../flow/delivery-flow.ts'
import { RunningLanes } from '../flow/running-lanes.ts'
import { toDelivery } from '../memory/to-delivery.ts'
import { ConfigurationError } from '../model/errors.ts'
import type { Availability, GuardPort } from '../model/guard-port.ts'
import type { Settlement } from '../model/settlement.ts'
import { PullLoop, type PullLoopOptions } from './pull-loop.ts'

interface Each extends Received {
  readonly name: string
}

const ACK: Settlement = { kind: 'ack', by: 'processed' }
const down: Availability = { kind: 'down', retryAt: 0 as never, error: new Error('no store') }

/** What is due now happens, and what follows from it. */
async function turn(): Promise<void> {
  for (let turns = 0; turns < 4; turns += 1) await setImmediate()
}

/** `a1` is a message of the ordering key `a`. */
const each = (name: string): Each => {
  const orderingKey = name.length > 1 ? name[0] : undefined
  return { name, delivery: toDelivery(name, { orderingKey }), rounds: 0 }
}

/** A loop for which the test plays broker, guard, store and time. */
function looping(options: Partial<PullLoopOptions<Each, 'network'>> = {}) {
  const clock = new Clock()
  const [stop, abort] = [new AbortController(), new AbortController()]
  const world = { availability: { kind: 'available' } as Availability, heldForMs: 5_000 }
  const calls: string[] = []
  const ends: object[] = []
  const runs: { readonly name: string; readonly count: number | undefined; settle: Settle }[] = []
  type Settle = (settlement: Settlement) => void
  const run: GuardPort['run'] = (deliveries, hooks) =>
    Promise.all(
      deliveries.map(async ({ body, deliveryCount }, index) => {
        const { promise, resolve } = Promise.withResolvers<Settlement>()
        const name = JSON.parse(new TextDecoder().decode(body)) as string
        runs.push({ name, count: deliveryCount, settle: resolve })
        hooks?.onSettlement?.(index, await promise)
        return promise
      }),
    )
  const settings = { concurrency: 4, transaction: 'each', lanesAreUsers: false }
  const port = {
    ...{ settings, runtime: clock.runtime, logger: silent, run },
    availability: () => world.availability,
    onPaused: () => () => undefined,
  } as unknown as GuardPort
  const loop = new PullLoop<Each, 'network'>({
    ...{ port, fields: {}, backoff: { network: { baseMs: 100, maxMs: 100 } } },
    settings: { batchSize: 10, lingerMs: 0 },
    classifyError: (error) => ({ kind: 'network', text: String(error) }),
    check: async () => undefined,
    signals: { stop: stop.signal, abort: abort.signal, onEnd: (end) => void ends.push(end) },
    source: {
      most: 10,
      fill: () => void calls.push('fill'),
      fillOne: () => void calls.push('fill one'),
      failed: (error) => void calls.push(`failed: ${error}`),
    },
    lanes: new RunningLanes<Each>({ lanesAreUsers: false }),
    ...{ hasDeadLetterPlace: true, mostHeld: 1 },
    settle: (received, settlement, mayHold) => {
      const why = settlement.kind === 'defer' && settlement.reason === 'store-down'
      const isHeld = settlement.kind === 'defer' && mayHold(why ? 'outage' : 'short')
      calls.push(`${isHeld ? 'hold' : settlement.kind} ${received.name}`)
      return isHeld ? clock.runtime.monotonic() + world.heldForMs : undefined
    },
    giveBack: async ({ name }) => void calls.push(`give back ${name}`),
    ...options,
  })
  const receive = (...names: readonly string[]) =>
    loop.receive({ reserved: names.length, fetch: async () => names.map(each) })
  const settle = async (name: string, settlement: Settlement = ACK): Promise<void> => {
    runs.findLast((one) => one.name === name)?.settle(settlement)
    await turn()
  }
  const later = (reason: 'failed' | 'store-down'): Settlement => ({
    ...{ kind: 'defer', reason, until: 0 as never },
  })
  const names = () => runs.map(({ name }) => name).join(' ')
  return { loop, clock, stop, world, calls, ends, runs, receive, settle, later, names }
}

test('nothing is received before the check has succeeded, and an error that no retry fixes ends the loop', async () => {
  const world = { check: async (): Promise<void> => Promise.reject(new Error('no route')) }
  const { loop, clock, calls, ends, receive, settle } = looping({ check: () => world.check() })
  await loop.start()
  expect([calls, loop.outage?.state]).toEqual([[], 'recovering'])
  world.check = async () => undefined
  clock.advance(1_000)
  await turn()
  expect([calls, loop.outage]).toEqual([['fill'], undefined])
  const error = new ConfigurationError('no such queue')
  await loop.receive({ reserved: 1, fetch: () => Promise.reject(error) })
  expect(ends).toEqual([{ kind: 'fatal', error }])
  await receive('a', 'b')
  await settle('a', { kind: 'abandon', reason: 'lease-lost' })
  await settle('b', { kind: 'abandon', reason: 'closing' })
  expect(ends.slice(1)).toEqual([{ kind: 'closed' }])
})

describe('a receive', () => {
  test('keeps room until it is answered, and then its messages occupy it', async () => {
    const { loop, receive, names, calls } = looping()
    await loop.start()
    const receiving = receive('a', 'b', 'c')
    expect([loop.room, loop.free]).toEqual([4, 1])
    expect(await receiving).toBe('answered')
    expect([loop.room, loop.free, loop.inFlight, names()]).toEqual([1, 1, 3, 'a b c'])
    // There may be more to receive.
    expect(calls).toEqual(['fill', 'fill'])
    expect(loop.lastProgressAt).toBeInstanceOf(Date)
  })

  test('that fails is told, and tried again after one pause, however many fail together', async () => {
    const { loop, clock, calls, ends, names, receive } = looping()
    await loop.start()
    const gone = Promise.withResolvers<never>()
    const failing = [1, 2].map(() => loop.receive({ reserved: 2, fetch: () => gone.promise }))
    expect(loop.free).toBe(0)
    gone.reject(new Error('no route'))
    expect(await Promise.all(failing)).toEqual(['failed', 'failed'])
    expect([loop.free, loop.outage]).toEqual([
      ...[4, { state: 'recovering', reason: 'Error: no route' }],
    ])
    const failed = 'failed: Error: no route'
    expect([calls, clock.timers]).toEqual([['fill', failed, failed], 1])
    clock.advance(1_000)
    expect(calls.at(-1)).toBe('fill')
    await receive('a')
    expect([loop.outage, names(), ends]).toEqual([undefined, 'a', []])
  })

  test('that is full tells how many messages must be in hand meanwhile', async () => {
    const { loop, clock, receive, settle } = looping()
    await loop.start()
    await receive('a')
    clock.advance(50)
    await settle('a')
    expect([loop.capacity, loop.worthwhile]).toEqual([14, 10])
    const full = { reserved: 0, full: 1, fetch: async () => [each('b')] }
    await loop.receive(full)
    // Half of the slots, and what runs during a receive, which takes no time here.
    expect([loop.capacity, loop.worthwhile]).toEqual([6, 2])
  })
})

describe('while the store is down', () => {
  test('what was received waits, but for one ordering key that asks it', async () => {
    const { loop, world, receive, names, calls } = looping()
    await loop.start()
    world.availability = down
    await receive('a1', 'b1', 'a2', 'c')
    expect([names(), loop.inFlight, loop.outage?.state]).toEqual(['a1 a2', 4, 'paused'])
    expect(calls).toEqual(['fill', 'hold b1', 'hold c'])
  })

  test('what waits longest asks first, and a message is received for it only if none is in hand', async () => {
    const { loop, clock, world, receive, later, settle, names, calls } = looping()
    world.availability = down
    await loop.start()
    loop.pump()
    expect(calls).toEqual(['fill one', 'fill one'])
    calls.length = 0
    await receive('a1', 'b1')
    for (const asking of ['a1', 'b1', 'a1']) {
      await settle(asking, later('store-down'))
    }
    expect([names(), calls.filter((call) => call.startsWith('fill'))]).toEqual(['a1 b1 a1 b1', []])
    world.availability = { kind: 'available' }
    await settle('b1')
    expect([loop.outage, calls.at(-1)]).toEqual([undefined, 'fill'])
    // The last one has rested.
    clock.advance(1_000)
    await turn()
    expect(names()).toBe('a1 b1 a1 b1 a1')
  })
})

describe('a held message', () => {
  test('runs again at its time, with one more delivery unless it waited for the store', async () => {
    const { loop, clock, receive, settle, later, runs, calls } = looping()
    await loop.start()
    await receive('a', 'b', 'c')
    await settle('a', later('failed'))
    // No more than one may be held for a time of its own.
    await settle('b', later('failed'))
    await settle('c', later('store-down'))
    expect(calls.filter((call) => call !== 'fill')).toEqual(['hold a', 'defer b', 'hold c'])
    // One that waits for the store occupies room.
    expect([loop.inFlight, loop.capacity - loop.room]).toEqual([2, 1])
    clock.advance(5_000)
    await turn()
    expect(runs.slice(3)).toMatchObject([
      { name: 'a', count: 2 },
      { name: 'c', count: 1 },
    ])
  })

  test('is left to its next receive where the broker shows it to others then, unless the store comes back', async () => {
    const { loop, clock, receive, settle, later, names } = looping({ isLeftWhenDue: true })
    await loop.start()
    await receive('a', 'b')
    await settle('a', later('store-down'))
    clock.advance(1_000)
    await turn()
    expect(names()).toBe('a b a')
    loop.stop()
    await settle('b', later('store-down'))
    clock.advance(5_000)
    await turn()
    expect([names(), loop.inFlight]).toEqual(['a b a', 1])
  })

  test('is dropped when another consumer has it', async () => {
    const { loop, clock, receive, settle, later, names } = looping()
    await loop.start()
    await receive('a1', 'b')
    await receive('a2')
    await settle('b', later('failed'))
    loop.drop(({ name }) => name !== 'a1')
    clock.advance(60_000)
    await settle('a1')
    expect([names(), loop.inFlight]).toEqual(['a1 b', 0])
  })
})

test('a drain waits for receives under way, gives back what they bring and what was not started, and holds nothing', async () => {
  const { loop, clock, stop, receive, settle, later, names, calls } = looping()
  await loop.start()
  await receive('a', 'b', 'c', 'd1')
  await receive('d2')
  await settle('a', later('failed'))
  const late = Promise.withResolvers<readonly Each[]>()
  const receiving = loop.receive({ reserved: 1, fetch: () => late.promise })
  calls.length = 0
  stop.abort()
  loop.stop()
  loop.clear()
  expect(await receive('never')).toBe('failed')
  late.resolve([each('late')])
  await receiving
  let isOver = false
  const over = loop.ended().then(() => {
    isOver = true
  })
  await settle('b', later('store-down'))
  await settle('c')
  await turn()
  expect(isOver).toBe(false)
  await settle('d1')
  await over
  expect(calls).toEqual([
    ...['give back d2', 'give back a', 'give back late', 'defer b', 'ack c', 'ack d1'],
  ])
  expect([names(), loop.inFlight, clock.timers]).toEqual(['a b c d1', 0, 0])
})
