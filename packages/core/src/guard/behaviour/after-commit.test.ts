import { describe, expect, test } from 'vitest'
import { never } from '../../fixtures/never.ts'
import { type Given, keyless, leased, named, setUp } from '../../fixtures/run.ts'
import { RetryableError } from '../../model/errors.ts'
import type { GuardOptions } from '../../options/options.ts'

type AfterCommit = NonNullable<GuardOptions<unknown>['afterCommit']>

const failed = { kind: 'after-commit-failed', cause: 'after-commit-failed' }
const processed = { kind: 'processed', attempt: 1, result: 7 }
const duplicate = { kind: 'duplicate', result: 7 }
const inLane = { orderingKey: 'lane' }

/** Throws for these keys, as often as it says. */
function kit(given: Given, faults: { [key: string]: number } = {}) {
  const called: unknown[] = []
  const order: string[] = []
  const afterCommit: AfterCommit = async (result, { key, attempt, payload }, info) => {
    await undefined
    order.push(`after ${key}`)
    called.push([key, attempt, payload, result, info])
    const left = faults[key] ?? 0
    faults[key] = left - 1
    if (left > 0) throw new RetryableError('the reply queue is down', { afterMs: 3_000 })
  }
  const handler = (event: { key: string }): number => {
    order.push(`run ${event.key}`)
    return 7
  }
  return { called, order, set: setUp({ given: { ...given, afterCommit } as Given, handler }) }
}

const GUARDS: readonly (readonly [string, () => Given])[] = [
  ['a transaction for each event', () => ({})],
  ['one transaction for all events', () => ({ transaction: 'batch' })],
  ['leases alone', leased],
]

describe.each(GUARDS)('afterCommit with %s', (_, given) => {
  test('follows the first run and each duplicate, with the result', async () => {
    const { called, set } = kit(given())
    const { outcomes } = await set
    expect(await outcomes([named('a', 1)])).toEqual([processed])
    expect(await outcomes([named('a', 1), named('b', 2), named('b', 2)])).toMatchObject([
      duplicate,
      processed,
      duplicate,
    ])
    expect(called.toSorted()).toEqual([
      ['a', 1, 1, 7, { duplicate: false }],
      ['a', 1, 1, 7, { duplicate: true }],
      ['b', 1, 2, 7, { duplicate: false }],
      ['b', 1, 2, 7, { duplicate: true }],
    ])
  })

  test('that throws defers the delivery, and the event does not run again', async () => {
    const { called, set } = kit(given(), { a: 2 })
    const { outcomes, ran } = await set
    const deferred = { ...failed, delayMs: 3_000, error: { message: 'the reply queue is down' } }
    // The copy in the same call waits as long.
    expect(await outcomes([named('a', 1), named('a', 1)])).toMatchObject([
      { ...deferred, attempt: 1 },
      { kind: 'not-due', delayMs: 3_000 },
    ])
    expect(await outcomes([named('a', 1)])).toMatchObject([deferred])
    expect(await outcomes([named('a', 1)])).toMatchObject([duplicate])
    expect([ran, called.length]).toEqual([[1], 3])
  })

  test('that throws stops its lane, and no other', async () => {
    const { called, set } = kit(given(), { a: 1 })
    const { outcomes } = await set
    const all = [named('a', 1, inLane), named('b', 2, inLane), named('c', 3)]
    expect(await outcomes(all)).toMatchObject([
      failed,
      { kind: 'not-due', cause: 'lane-waits', delayMs: 3_000 },
      processed,
    ])
    await outcomes(all)
    const keys = called.map((call) => (call as readonly unknown[])[0])
    expect(keys.toSorted()).toEqual(['a', 'a', 'b', 'c', 'c'])
    expect(keys.lastIndexOf('a')).toBeLessThan(keys.indexOf('b'))
  })

  test('has the payload as the message has it, whatever the handler did to it', async () => {
    const seen: unknown[] = []
    const afterCommit: AfterCommit = (__, { payload }) => void seen.push(payload)
    const { outcomes } = await setUp({
      given: { ...given(), afterCommit } as Given,
      handler: ({ payload }) => void Object.assign(payload as object, { cents: 6 }),
    })
    await outcomes([named('a', { cents: 5 })])
    expect(seen).toEqual([{ cents: 5 }])
  })

  test('that hangs defers the delivery at the deadline, and at the end of a drain', async () => {
    const { clock, emitted, context, run } = await setUp({
      given: { ...given(), afterCommit: never, deadlineMs: 5_000 } as Given,
    })
    await clock.until(run([named('a')]))
    expect(emitted.pop()?.[1]).toMatchObject({
      ...failed,
      error: { code: 'ONCEWARD_DEADLINE_EXCEEDED', message: expect.stringMatching(/5000 ms/) },
    })
    const stop = new AbortController()
    stop.abort()
    const startedAtMs = clock.runtime.monotonic()
    await clock.until(run([named('b')], { signals: { ...context.signals, drain: stop.signal } }))
    expect(clock.runtime.monotonic() - startedAtMs).toBeLessThan(5_000)
    expect(emitted.pop()?.[1]).toMatchObject({ kind: 'abandoned', reason: 'closing' })
    expect(clock.timers).toBe(0)
  })
})

test('the next event of a lane starts after afterCommit of the one before it', async () => {
  const { order, set } = kit({})
  const { outcomes } = await set
  await outcomes([named('a', 1, inLane), named('b', 2, inLane)])
  expect(order).toEqual(['run a', 'after a', 'run b', 'after b'])
})

// A redelivery would run the handler again.
test('a message without a key is acked, and what failed is an error in the log', async () => {
  const { called, set } = kit({ onMissingKey: 'unguarded' }, { '': 1 })
  const { logged, outcomes } = await set
  expect(await outcomes([keyless()])).toMatchObject([{ kind: 'unguarded', result: 7 }])
  expect(called).toEqual([['', 1, 'keyless', 7, { duplicate: false }]])
  expect(logged).toEqual([expect.stringMatching(/^afterCommit failed and nothing calls it again/)])
})
