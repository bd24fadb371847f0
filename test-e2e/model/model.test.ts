import { describe, expect, it } from 'vitest'
import { WORLDS, type World } from './worlds.ts'

const small = WORLDS.filter(({ isLarge }) => isLarge !== true)
const large = WORLDS.filter(({ isLarge }) => isLarge === true)

function check({ breaks, explore }: World): void {
  const { isComplete, violation } = explore()
  if (breaks === undefined) expect({ isComplete, violation }).toEqual({ isComplete: true })
  else expect(violation?.why).toBe(breaks)
}

describe('the protocol, explored exhaustively', () => {
  it.each(small.filter(({ breaks }) => breaks === undefined))('keeps its promises: $name', check)

  it.each(small.filter(({ breaks }) => breaks !== undefined))('$name: $breaks', check)

  it.each(large)('keeps its promises: $name', { tags: ['nightly'] }, check)
})
