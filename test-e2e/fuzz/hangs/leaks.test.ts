// @module-tag nightly

import { EventEmitter } from 'node:events'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { FIRST_CASES, Leaks } from './leaks.ts'

const MIB = 2 ** 20

describe('what hangs leave behind', () => {
  let leaks: Leaks
  beforeEach(() => {
    leaks = new Leaks({ timersMs: 500, mostGrowthBytes: 8 * MIB })
  })
  afterEach(() => leaks.close())

  test('is nothing where nothing is left', async () => {
    leaks.begin()
    expect(await leaks.found()).toEqual([])
  })

  test('are timers that nobody ended', async () => {
    // Not in the hook, which has a timer of its own. The runner has one now and then, so there are more than it has.
    leaks.begin()
    const left = Array.from({ length: 8 }, () => setTimeout(() => undefined, 60_000))
    expect(await leaks.found()).toEqual([expect.stringMatching(/^\d timers were left behind$/)])
    for (const timer of left) clearTimeout(timer)
    expect(await leaks.found()).toEqual([])
  })

  test('is no timer that ends in time', async () => {
    leaks.begin()
    setTimeout(() => undefined, 100)
    expect(await leaks.found()).toEqual([])
  })

  test('is a listener for each attempt', async () => {
    const client = new EventEmitter()
    for (let attempt = 0; attempt < 11; attempt++) client.on('close', () => undefined)
    await new Promise((resolve) => setImmediate(resolve))
    expect(await leaks.found()).toEqual([
      expect.stringMatching(/^listeners were left behind: .*11 close listeners/),
    ])
    // Each is told once.
    expect(await leaks.found()).toEqual([])
  })

  test('is memory that grows with the cases, but not that of the first ones', async () => {
    const kept: string[][] = []
    const keep = (): void => {
      kept.push(Array.from({ length: 400_000 }, (_, index) => `${kept.length} ${index}`))
    }
    for (let first = 1; first < FIRST_CASES; first++) {
      keep()
      expect(await leaks.found()).toEqual([])
    }
    expect(await leaks.found()).toEqual([])
    keep()
    expect(await leaks.found()).toEqual([
      expect.stringMatching(/^the heap has grown by \d+ bytes$/),
    ])
    expect(kept).toHaveLength(FIRST_CASES)
  })
})
