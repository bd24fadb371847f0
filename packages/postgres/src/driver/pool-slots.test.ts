import { StoreUnavailableError } from '@onceward/core'
import { systemRuntime } from '@onceward/core/ports'
import pg from 'pg'
import { describe, expect, it } from 'vitest'
import { gateOf, SPARE_CONNECTIONS, sizeOf } from './pool-slots.ts'

const SOON = { runtime: systemRuntime, limitMs: 5 }
const LATER = { runtime: systemRuntime, limitMs: 60_000 }

describe('the slots of a pool', () => {
  it('are the same for all guards on it', () => {
    const pool = {}
    expect(gateOf(pool, 10)).toBe(gateOf(pool, 10))
    expect(gateOf({}, 10)).not.toBe(gateOf(pool, 10))
  })

  it('keep connections spare for short statements', async () => {
    const { business, spare } = gateOf({}, 3)
    await business.acquire(SOON)
    await expect(business.acquire(SOON)).rejects.toBeInstanceOf(StoreUnavailableError)
    for (let count = 0; count < SPARE_CONNECTIONS; count += 1) await spare.acquire(SOON)
    await expect(spare.acquire(SOON)).rejects.toBeInstanceOf(StoreUnavailableError)
  })

  it('give an error that says what to do if none becomes free in time', async () => {
    const { business } = gateOf({}, 4)
    for (let count = 0; count < 2; count += 1) await business.acquire(SOON)
    await expect(business.acquire(SOON)).rejects.toThrow(
      'None of the 2 connections for this became free within 5 ms: raise `max` of the pool, or lower `concurrency`.',
    )
  })

  it('go first to runs that are already counted', async () => {
    const { business } = gateOf({}, 3)
    const order: string[] = []
    const held = await business.acquire(SOON)
    const waiting = [
      { name: 'fresh', request: LATER },
      { name: 'counted', request: { ...LATER, first: true } },
    ].map(async ({ name, request }) => {
      const release = await business.acquire(request)
      order.push(name)
      release()
    })
    held()
    await Promise.all(waiting)
    expect(order).toEqual(['counted', 'fresh'])
  })
})

// Red when `max` is taken as it is: slots that are no whole number never run out, and `concurrency` was 5.5.
it.each([
  [10, 10],
  [7.5, 8],
  [0.5, 1],
  ['20', 20],
  [Number.NaN, 10],
  [undefined, 10],
  ['many', undefined],
  [Number.POSITIVE_INFINITY, undefined],
])('a pool with max: %j has room for %j connections', (max, size) => {
  expect(sizeOf(new pg.Pool({ max: max as number }))).toBe(size)
})
