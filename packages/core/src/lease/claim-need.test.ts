import { expect, test } from 'vitest'
import { ClaimNeed } from './claim-need.ts'

/** Whether all events are claimed after each of the outcomes. */
function after(isCopy: (n: number) => boolean, count: number, need = new ClaimNeed()): boolean[] {
  return Array.from({ length: count }, (_, n) => {
    need.note(isCopy(n))
    return need.isHigh
  })
}

test('new events are not claimed', () => {
  expect(after(() => false, 1_000)).not.toContain(true)
})

test('one copy in ten does not pay', () => {
  expect(after((n) => n % 10 === 0, 1_000)).not.toContain(true)
})

test('a storm is noticed within a hundred events, and its end too', () => {
  const need = new ClaimNeed()
  after(() => false, 10_000, need)
  expect(after(() => true, 100, need).at(-1)).toBe(true)
  expect(after(() => false, 100, need).at(-1)).toBe(false)
})

test('where half are copies all events stay claimed', () => {
  const need = new ClaimNeed()
  after((n) => n % 2 === 0, 200, need)
  expect(after((n) => n % 2 === 0, 1_000, need)).not.toContain(false)
})
