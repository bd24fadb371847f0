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
