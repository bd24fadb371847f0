import { describe, expect, test } from 'vitest'
import { Clock } from '../fixtures/clock.ts'
import { systemRuntime } from './system-runtime.ts'
import { answerWithin, CallTimeoutError, endsWithin, LATE, track, withTimeout } from './timeout.ts'

const silent = (): Promise<never> => new Promise(() => undefined)
const failed = (): Promise<never> => Promise.reject(new Error('no'))

describe('a wait with a limit', () => {
  test('returns an answer or a rejection that comes in time, and leaves no timer', async () => {
    const clock = new Clock()
    expect(await answerWithin(clock.runtime, Promise.resolve('there'), 5)).toBe('there')
    await expect(answerWithin(clock.runtime, failed(), 5)).rejects.toThrow('no')
    expect(clock.timers).toBe(0)
  })

  test('ends on the clock of the runtime', async () => {
    const clock = new Clock()
    const answer = answerWithin(clock.runtime, silent(), 5_000)
    clock.advance(5_000)
    expect(await answer).toBe(LATE)
  })

  test('ignores the result of a late promise', async () => {
    const clock = new Clock()
    const { promise, reject } = Promise.withResolvers<string>()
    const answer = answerWithin(clock.runtime, promise, 5)
    clock.advance(5)
    reject(new Error('late'))
    expect(await answer).toBe(LATE)
  })
})

test('a promise ends within its limit if it resolves or rejects', async () => {
  const clock = new Clock()
  expect(await endsWithin(clock.runtime, Promise.resolve(), 5)).toBe(true)
  expect(await endsWithin(clock.runtime, failed(), 5)).toBe(true)
  const ended = endsWithin(clock.runtime, silent(), 5)
  clock.advance(5)
  expect(await ended).toBe(false)
})

describe('a call with a budget', () => {
  const call = { call: 'connect', budgetMs: 5 }

  test('returns the answer of the call, or rejects with its error', async () => {
    expect(await withTimeout(systemRuntime, Promise.resolve('there'), call)).toBe('there')
    await expect(withTimeout(systemRuntime, failed(), call)).rejects.toThrow('no')
  })

  test('rejects with a timeout error like that of a socket if the call does not answer', async () => {
    const error = await withTimeout(systemRuntime, silent(), call).catch(
      (thrown: unknown) => thrown,
    )
    expect(error).toBeInstanceOf(CallTimeoutError)
    expect(error).toMatchObject({ name: 'TimeoutError', code: 'ETIMEDOUT' })
    expect(String(error)).toBe('TimeoutError: connect got no answer within 5 ms')
  })
})

test('a tracked promise stays in the set until it settles', async () => {
  const set = new Set<Promise<unknown>>()
  const { promise, resolve } = Promise.withResolvers<void>()
  const resolved = track(set, promise)
  const rejected = track(set, failed())
  expect([...set]).toEqual([resolved, rejected])
  await expect(rejected).rejects.toThrow('no')
  expect([...set]).toEqual([resolved])
  resolve()
  await resolved
  expect(set.size).toBe(0)
})
