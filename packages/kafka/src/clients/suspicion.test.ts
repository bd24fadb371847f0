import { expect, test } from 'vitest'
import { Suspicion } from './suspicion.ts'

const [first, second] = [
  { topic: 'orders', partition: 0 },
  { topic: 'orders', partition: 1 },
]

// Red when an assignment forgets nothing: what a dead member had started is not counted after the second rebalance.
test('records are suspects from each assignment on, and from the first fetch of each partition after it', () => {
  const suspicion = new Suspicion(500)
  expect(suspicion.untilMs).toBe(Number.POSITIVE_INFINITY)
  suspicion.assigned(1_000)
  expect(suspicion.untilMs).toBe(1_500)
  suspicion.fetched(first, 3_000)
  suspicion.fetched(first, 4_000)
  expect(suspicion.untilMs).toBe(3_500)
  suspicion.fetched(second, 5_000)
  expect(suspicion.untilMs).toBe(5_500)
  suspicion.assigned(9_000)
  expect(suspicion.untilMs).toBe(9_500)
  suspicion.fetched(first, 9_200)
  expect(suspicion.untilMs).toBe(9_700)
})

// Red when it stays infinite, or ends what another partition began.
test('records of a partition that nobody has had before are no suspects', () => {
  const suspicion = new Suspicion(500)
  suspicion.assigned(1_000, true)
  expect(suspicion.untilMs).toBe(1_000)
  suspicion.assigned(2_000)
  suspicion.assigned(2_100, true)
  expect(suspicion.untilMs).toBe(2_500)
})
