import { StoreUnavailableError } from '@onceward/core'
import { describe, expect, it } from 'vitest'
import { createSlots, gateOf, SPARE_CONNECTIONS } from './pool-slots.ts'

const SOON = { boundMs: 5 }
const LATE = { boundMs: 60_000 }

describe('slots', () => {
  it('are given in the order of asking', async () => {
    const slots = createSlots(1)
    const order: string[] = []
    const first = await slots.take(LATE)
    const others = ['a', 'b'].map(async (name) => {
      const giveBack = await slots.take(LATE)
      order.push(name)
      giveBack()
    })
    first()
    await Promise.all(others)
    expect(order).toEqual(['a', 'b'])
  })

  it('go first to runs that are already counted', async () => {
    const slots = createSlots(1)
    const order: string[] = []
    const held = await slots.take(LATE)
    const waiting = [
      { name: 'fresh', wait: LATE },
      { name: 'counted', wait: { ...LATE, first: true } },
    ].map(async ({ name, wait }) => {
      const giveBack = await slots.take(wait)
      order.push(name)
      giveBack()
    })
    held()
    await Promise.all(waiting)
    expect(order).toEqual(['counted', 'fresh'])
  })

  it('are waited for no longer than the bound, and those who gave up take none', async () => {
    const slots = createSlots(1)
    const held = await slots.take(SOON)
    await expect(slots.take(SOON)).rejects.toBeInstanceOf(StoreUnavailableError)
    held()
    const again = await slots.take(SOON)
    again()
  })

  it('given back twice are one', async () => {
    const slots = createSlots(1)
    const giveBack = await slots.take(SOON)
    giveBack()
    giveBack()
    await slots.take(SOON)
    await expect(slots.take(SOON)).rejects.toBeInstanceOf(StoreUnavailableError)
  })
})

describe('the gate of a pool', () => {
  it('is the same for all guards on it', () => {
    const pool = {}
    expect(gateOf(pool, 10)).toBe(gateOf(pool, 10))
    expect(gateOf({}, 10)).not.toBe(gateOf(pool, 10))
  })

  it('keeps connections spare for short statements', async () => {
    const { business, spare } = gateOf({}, 3)
    await business.take(SOON)
    await expect(business.take(SOON)).rejects.toBeInstanceOf(StoreUnavailableError)
    for (let count = 0; count < SPARE_CONNECTIONS; count += 1) await spare.take(SOON)
    await expect(spare.take(SOON)).rejects.toBeInstanceOf(StoreUnavailableError)
  })

  it('lets one connection serve both, and bounds nothing where the size is not known', async () => {
    const single = gateOf({}, 1)
    await single.business.take(SOON)
    await single.spare.take(SOON)
    const unknown = gateOf({}, undefined)
    for (let count = 0; count < 100; count += 1) await unknown.business.take(SOON)
  })
})
