import { describe, expect, it } from 'vitest'
import type { World } from './world.ts'
import { WORLDS } from './worlds.ts'

const small = WORLDS.filter(({ isLarge }) => isLarge !== true)
const large = WORLDS.filter(({ isLarge }) => isLarge === true)
const isKept = ({ breaks }: World): boolean => breaks === undefined
const isBroken = ({ breaks }: World): boolean => breaks !== undefined

/** The largest have most of a million states. */
const NIGHTLY = { tags: ['nightly'], timeout: 1_800_000 }

function check({ breaks, explore }: World): void {
  const { isComplete, violation } = explore()
  if (breaks === undefined) expect({ isComplete, violation }).toEqual({ isComplete: true })
  else expect(violation?.why).toBe(breaks)
}

describe('the protocol, explored exhaustively', () => {
  it.each(small.filter(isKept))('keeps its promises: $name', check)

  it.each(small.filter(isBroken))('$name: $breaks', check)

  it.each(large.filter(isKept))('keeps its promises: $name', NIGHTLY, check)

  it.each(large.filter(isBroken))('$name: $breaks', NIGHTLY, check)
})
