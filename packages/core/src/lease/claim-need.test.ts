import { expect, test } from 'vitest'
import { ClaimNeed } from './claim-need.ts'

type Knows = (isCopy: boolean) => boolean

/** Whether each of the events is claimed. Those that are get an answer of a store that knows what it knows. */
function play(
  isCopy: (n: number) => boolean,
  count: number,
  { need = new ClaimNeed(), knows = (is: boolean) => is }: { need?: ClaimNeed; knows?: Knows } = {},
): boolean[] {
  return Array.from({ length: count }, (_, n) => {
    const isClaimed = need.claims()
    if (isClaimed) need.answered(knows(isCopy(n)))
    need.ended(isCopy(n))
    return isClaimed
  })
}

const share = (claimed: readonly boolean[]): number =>
  claimed.filter(Boolean).length / claimed.length

test('new events are not claimed', () => {
  expect(play(() => false, 1_000)).not.toContain(true)
})

test('one copy in ten does not pay', () => {
  expect(play((n) => n % 10 === 0, 1_000)).not.toContain(true)
})

test('a storm is noticed within a hundred events, and its end too', () => {
  const need = new ClaimNeed()
  play(() => false, 10_000, { need })
  expect(play(() => true, 100, { need }).at(-1)).toBe(true)
  expect(play(() => false, 100, { need }).at(-1)).toBe(false)
})

test('where half are copies all events stay claimed', () => {
  const need = new ClaimNeed()
  play((n) => n % 2 === 0, 200, { need })
  expect(play((n) => n % 2 === 0, 1_000, { need })).not.toContain(false)
})

test('of copies that the store does not know, one in sixteen is claimed, until the store knows them', () => {
  const need = new ClaimNeed()
  play(() => true, 200, { need, knows: () => false })
  expect(share(play(() => true, 1_600, { need, knows: () => false }))).toBe(1 / 16)
  play(() => true, 300, { need })
  expect(play(() => true, 100, { need })).not.toContain(false)
})

test('in the next storm the store is asked again, whatever it knew in the last one', () => {
  const need = new ClaimNeed()
  play(() => true, 200, { need, knows: () => false })
  play(() => false, 200, { need })
  expect(play(() => true, 50, { need, knows: () => false }).filter(Boolean).length).toBeGreaterThan(
    20,
  )
})
