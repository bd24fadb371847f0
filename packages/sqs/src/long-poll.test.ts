import { expect, test } from 'vitest'
import { answer, receiving } from './fixtures/receiving.ts'

test.each([
  [20_000, 9_999, true],
  [20_000, 10_000, false],
  [1_000, 1_000, false],
  [1_000, 499, true],
  [500, 500, true],
])(
  'a long poll of %i ms that is empty after %i ms is followed by a pause: %s',
  async (longPollMs, elapsedMs, isPause) => {
    const kit = await receiving({ longPollMs: longPollMs < 1_000 ? 0 : longPollMs }).started()
    await kit.clock.advance(elapsedMs)
    await answer(kit)
    expect([kit.receives.length, kit.clock.timers]).toEqual(isPause ? [1, 1] : [2, 0])
    await kit.clock.advance(299)
    expect(kit.receives).toHaveLength(isPause ? 1 : 2)
    await kit.clock.advance(1)
    expect(kit.receives).toHaveLength(2)
  },
)

// Red when the limit of the client is left out of the wait, or of the decision whether a receive was long.
test.each([
  [4_000, 4_000, 4_000, false],
  [4_000, 4_000, 1_999, true],
  [30_000, 20_000, 20_000, false],
  [0, 0, 0, true],
])(
  'with a client that waits for %i ms, a receive waits for %i ms; empty after %i ms, a pause follows: %s',
  async (longestPollMs, waitMs, elapsedMs, isPause) => {
    const kit = receiving({ longPollMs: 20_000 })
    kit.world.longestPollMs = longestPollMs
    await kit.started()
    expect(kit.receives).toMatchObject([{ waitMs }])
    await kit.clock.advance(elapsedMs)
    await answer(kit)
    expect([kit.receives.length, kit.clock.timers]).toEqual(isPause ? [1, 1] : [2, 0])
  },
)
