import { expect, test } from 'vitest'
import { silent } from '../fixtures/inbox.ts'
import type { Pause } from '../model/guard-port.ts'
import { FirstRefusals, MOST_REFUSALS } from './first-refusals.ts'

function refusing() {
  const pauses: Pause[] = []
  const said: object[] = []
  const valve = { isOpen: true, pause: (pause: Pause) => void pauses.push(pause) }
  const logger = { ...silent, error: (fields: object) => void said.push(fields) }
  return { pauses, said, refusals: new FirstRefusals({ consumer: 'billing', logger, valve }) }
}

const missing = (count: number) => Array.from({ length: count }, () => 'missing-event-key' as const)
const never = async (): Promise<boolean> => false

// Red before: a wrong `eventKey` emptied the queue into dead letters.
test('a consumer without a success is paused after twenty refusals for one reason, within a batch too', async () => {
  const { pauses, refusals, said } = refusing()
  expect(await refusals.admit(missing(15), never)).toBe(15)
  expect(await refusals.admit(missing(100), never)).toBe(MOST_REFUSALS - 15)
  expect(pauses).toEqual([{ source: 'guard', why: expect.stringContaining('missing-event-key') }])
  expect(said).toEqual([{ consumer: 'billing', reason: 'missing-event-key', refused: 20 }])
  // Whoever resumes it has decided.
  expect(await refusals.admit(missing(100), never)).toBe(100)
  expect(pauses).toHaveLength(1)
})

test.each<[string, () => Promise<boolean>]>([
  ['that had an event', async () => true],
  ['whose store does not say', () => Promise.reject(new Error('too slow'))],
])('a consumer %s is not paused', async (_, isProven) => {
  const { pauses, refusals } = refusing()
  expect(await refusals.admit(missing(100), isProven)).toBe(100)
  expect(pauses).toEqual([])
})

test('refusals for other reasons begin a new count, and a store that knows nothing pauses nobody', async () => {
  const { pauses, refusals } = refusing()
  for (let round = 0; round < 5; round += 1) {
    expect(await refusals.admit([...missing(19), 'invalid-payload'], never)).toBe(20)
  }
  expect(await refusals.admit(missing(100), undefined)).toBe(100)
  expect(pauses).toEqual([])
})
