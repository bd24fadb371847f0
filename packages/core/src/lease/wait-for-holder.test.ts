import { describe, expect, test } from 'vitest'
import { stopSignals } from '../concurrency/stop-signals.ts'
import { Clock } from '../fixtures/clock.ts'
import { newEvent, silent } from '../fixtures/inbox.ts'
import { createGuard } from '../guard/guard.ts'
import { memoryInbox, memoryLeases, toDelivery } from '../memory/index.ts'
import { StoreUnavailableError } from '../model/errors.ts'
import type { Guard } from '../model/guard-port.ts'
import type { ClaimResult, LeaseSession, LeaseStore } from '../model/lease-store.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import type { Claimed } from './claim.ts'
import type { LeaseRenewer } from './renew.ts'
import { waitForHolder } from './wait-for-holder.ts'

interface TwoGuards {
  /** The guard whose handler waits for the test. */
  readonly slow: Guard
  readonly other: Guard
  readonly reached: Promise<void>
  readonly open: () => void
  /** Number of `claim` calls by the other guard. */
  readonly claims: () => number
  readonly ran: string[]
}

const compositions = ['with an inbox', 'without an inbox'] as const

/** Two guards of one consumer on one store, like two processes. */
function twoGuards(composition: (typeof compositions)[number], claimWaitMs: number): TwoGuards {
  const reached = Promise.withResolvers<void>()
  const gate = Promise.withResolvers<void>()
  const leases = memoryLeases()
  const inbox = memoryInbox()
  const ran: string[] = []
  let claims = 0
  const counting: LeaseStore = {
    ...leases,
    claim: (asked) => {
      claims += 1
      return leases.claim(asked)
    },
  }
  const guard = (store: LeaseStore, who: string, gated: boolean): Guard => {
    const common = { consumer: 'billing', leases: store, claimWaitMs, logger: silent }
    const options =
      composition === 'with an inbox'
        ? { ...common, inbox }
        : ({ ...common, onTakeover: 'retry' } as const)
    return createGuard(options, async ({ key }) => {
      reached.resolve()
      if (gated) await gate.promise
      ran.push(`${who} ${key}`)
    })
  }
  return {
    slow: guard(leases, 'slow', true),
    other: guard(counting, 'other', false),
    reached: reached.promise,
    open: gate.resolve,
    claims: () => claims,
    ran,
  }
}

const order = (key: string, orderingKey?: string) =>
  toDelivery({ key }, { headers: { 'idempotency-key': key }, orderingKey })

describe.each(compositions)('a copy of an event in another process, %s', (composition) => {
  test('waits for the event and gets its outcome', async () => {
    const { slow, other, reached, open, claims } = twoGuards(composition, 4_000)
    const running = slow.process(order('1'))
    await reached
    const copy = other.process(order('1'))
    await expect.poll(claims).toBe(1)
    open()
    expect(await running).toMatchObject({ by: 'processed' })
    expect(await copy).toMatchObject({ kind: 'ack', by: 'duplicate' })
    await Promise.all([slow.close(), other.close()])
  })

  test('acceptance A18: is deferred after a handful of claims', async () => {
    const { slow, other, reached, open, claims } = twoGuards(composition, 200)
    const running = slow.process(order('1'))
    await reached
    expect(await other.process(order('1'))).toMatchObject({ kind: 'defer', reason: 'in-progress' })
    expect(claims()).toBe(4)
    open()
    await running
    await Promise.all([slow.close(), other.close()])
  })

  test('blocks its own lane and no other lane', async () => {
    const { slow, other, reached, open, ran, claims } = twoGuards(composition, 4_000)
    const running = slow.process(order('1', 'lane'))
    await reached
    const batch = [order('0', 'lane'), order('1', 'lane'), order('2', 'lane'), order('3')]
    const settling = other.processBatch(batch)
    await expect.poll(() => ran).toEqual(expect.arrayContaining(['other 0', 'other 3']))
    expect(ran).toHaveLength(2)
    await expect.poll(claims).toBeGreaterThan(0)
    open()
    await running
    const by = (await settling).map((settlement) => Reflect.get(settlement, 'by'))
    expect(by).toEqual(['processed', 'duplicate', 'processed', 'processed'])
    expect(ran.indexOf('other 2')).toBeGreaterThan(ran.indexOf('slow 1'))
    await Promise.all([slow.close(), other.close()])
  })

  test('stops its lane when the wait was too short', async () => {
    const { slow, other, reached, open, ran } = twoGuards(composition, 50)
    const running = slow.process(order('1', 'lane'))
    await reached
    const settled = await other.processBatch([order('1', 'lane'), order('2', 'lane')])
    expect(settled.map(({ kind }) => kind)).toEqual(['defer', 'defer'])
    expect(ran).toEqual([])
    open()
    await running
    // The later event of the lane was released.
    expect(await other.process(order('2', 'lane'))).toMatchObject({ by: 'processed' })
    await Promise.all([slow.close(), other.close()])
  })

  test('stops waiting once its guard is closed', async () => {
    const { slow, other, reached, open, claims } = twoGuards(composition, 60_000)
    const running = slow.process(order('1'))
    await reached
    const copy = other.process(order('1'))
    await expect.poll(claims).toBe(1)
    const closed = other.close()
    expect(await copy).toMatchObject({ kind: expect.stringMatching(/^(defer|abandon)$/) })
    await closed
    open()
    await running
    await slow.close()
  })
})

describe('a wait for the holder', () => {
  const held: Claimed = {
    kind: 'outcome',
    outcome: { kind: 'in-progress', delayMs: 1_000, cause: 'held-by-lease' },
  }
  const down = new StoreUnavailableError('down')

  /** A wait of a second on a clock that the test moves, and what the store answers to each further claim. */
  function setUp(...answers: (() => ClaimResult)[]) {
    return waitAfter(held, ...answers)
  }

  function waitAfter(claimed: Claimed, ...answers: (() => ClaimResult)[]) {
    const clock = new Clock()
    const startedAtMs = clock.runtime.monotonic()
    const askedAtMs: number[] = []
    const options = { runtime: clock.runtime, claimWaitMs: 1_000, leaseMs: 30_000, retry: {} }
    let claims = 0
    const store = {
      claim: async () => {
        claims += 1
        askedAtMs.push(clock.runtime.monotonic() - startedAtMs)
        return [(answers.shift() ?? inProgress)()]
      },
    } as unknown as LeaseSession
    const stop = new AbortController()
    const signals = stopSignals([stop.signal])
    let listeners = 0
    const whenStopping: typeof signals.whenStopping = (onStop) => {
      listeners += 1
      const unsubscribe = signals.whenStopping(onStop)
      return () => {
        listeners -= 1
        unsubscribe()
      }
    }
    const member = { index: 0, event: newEvent(), payload: 1, lane: undefined, suspect: false }
    const waited = waitForHolder(
      { options: options as unknown as ResolvedOptions, store, renewer: {} as LeaseRenewer },
      member,
      { claimed, signals: { ...signals, whenStopping } },
    )
    return { clock, stop, waited, askedAtMs, claims: () => claims, listeners: () => listeners }
  }
  const inProgress = (): ClaimResult => ({ kind: 'in-progress', remainingMs: 1_000 })
  const away = (): never => {
    throw down
  }

  test('keeps the first answer when the store gives none later', async () => {
    const { claims, clock, waited } = setUp(away, away, away)
    expect(await clock.until(waited)).toBe(held)
    expect(claims()).toBe(3)
  })

  test('goes on after a claim without an answer, and ends with the first that is better', async () => {
    const { claims, clock, waited } = setUp(away, () => ({ kind: 'conflict' }))
    expect(await clock.until(waited)).toEqual({ kind: 'conflict' })
    expect(claims()).toBe(2)
  })

  test('asks soon, then more rarely, and for the last time when `claimWaitMs` is over', async () => {
    const { askedAtMs, clock, waited } = setUp()
    await clock.until(waited)
    expect(askedAtMs).toEqual([100, 400, 1_000])
  })

  test('does not begin for an event that is free', async () => {
    const waits: Claimed = {
      kind: 'outcome',
      outcome: { kind: 'not-due', delayMs: 1_000, cause: 'not-due' },
    }
    const { claims, clock, waited } = waitAfter(waits)
    expect(clock.timers).toBe(0)
    expect(await waited).toBe(waits)
    expect(claims()).toBe(0)
  })

  test('claims nothing after a stop, and leaves no timer and no listener', async () => {
    const { claims, clock, listeners, stop, waited } = setUp()
    expect([clock.timers, listeners()]).toEqual([1, 1])
    stop.abort()
    expect(await waited).toBe(held)
    expect([claims(), clock.timers, listeners()]).toEqual([0, 0, 0])
  })
})
