import { expect, test } from 'vitest'
import { createBreaker } from '../concurrency/breaker.ts'
import { Clock } from '../fixtures/clock.ts'
import { newEvent, silent } from '../fixtures/inbox.ts'
import { ConfigurationError, StoreUnavailableError } from '../model/errors.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import { factsOf } from '../settlement/observe.ts'
import { storeFailure } from '../settlement/store-down.ts'

// Red when a row that does not fit its event stops the consumer, or when an operator hears of a defect from nobody.
test.each<[string, Error, boolean, number]>([
  ['store is away', new StoreUnavailableError('away'), true, 0],
  ['store does not fit', new ConfigurationError('no such table'), true, 1],
  ['call failed for its events alone', new TypeError('a defect'), false, 1],
])('if a %s, its events are deferred', (_, error, pauses, lines) => {
  const { runtime } = new Clock()
  const logged: unknown[] = []
  const logger = { ...silent, error: (fields: object) => void logged.push(fields) }
  const breaker = createBreaker(runtime)
  const options = { logger } as unknown as ResolvedOptions
  expect(storeFailure({ breaker, options }, error)).toEqual({
    ...{ kind: 'store-down', delayMs: 1_000, error, cause: 'store-error' },
  })
  expect(breaker.state() !== undefined).toBe(pauses)
  expect(logged).toEqual(
    Array.from({ length: lines }, () => ({
      err: expect.objectContaining({ message: error.message }),
    })),
  )
})

test('what an outcome is observed with is of its own event', () => {
  const event = newEvent()
  const timings = { beginMs: 1 } as never
  const member = { index: 0, event, timings, payload: 1, lane: undefined, suspect: false }
  expect(factsOf(member, 5)).toEqual({ key: event.key, eventId: event.id, handlerMs: 5, timings })
  expect(factsOf(member).handlerMs).toBeUndefined()
})
