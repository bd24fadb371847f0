import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { DeadlineError, until } from './until.ts'

test('the value of the condition is returned once it is truthy', async () => {
  const answers = [undefined, 0, '', 'third time lucky']
  await expect(until(() => answers.shift(), { everyMs: 1 })).resolves.toBe('third time lucky')
})

test('a condition that throws counts as not yet', async () => {
  let calls = 0
  const flaky = (): boolean => {
    calls += 1
    if (calls < 3) throw new Error('too early')
    return true
  }
  await until(flaky, { everyMs: 1 })
  expect(calls).toBe(3)
})

test('the error says what was awaited and why it failed', async () => {
  const never = until(() => Promise.reject(new Error('connection refused')), {
    what: 'the broker',
    deadlineMs: 5,
    everyMs: 1,
  })
  await expect(never).rejects.toThrow(DeadlineError)
  await expect(never).rejects.toThrow('waited 5 ms for: the broker; last error: connection refused')
})

test('without a name the error shows the source of the condition', async () => {
  const ready = false
  await expect(until(() => ready, { deadlineMs: 1 })).rejects.toThrow('() => ready')
})

test('a condition that never answers is abandoned at the deadline', async () => {
  const silent = until(() => new Promise<boolean>(() => undefined), { deadlineMs: 5 })
  await expect(silent).rejects.toThrow(DeadlineError)
})

describe('by the clock', () => {
  beforeEach(() => {
    vi.useFakeTimers()
    // A clock that says 0 would hide a sum in the place of a difference.
    vi.advanceTimersByTime(1_000)
  })
  afterEach(() => vi.useRealTimers())

  const later = (ms: number): Promise<string> =>
    new Promise((resolve) => setTimeout(resolve, ms, 'late'))

  test('the condition is asked until the deadline, and not beyond it', async () => {
    const condition = vi.fn(() => false)
    const never = expect(until(condition, { deadlineMs: 100, everyMs: 20 })).rejects.toThrow(
      DeadlineError,
    )
    await vi.advanceTimersByTimeAsync(100)
    await never
    expect(condition).toHaveBeenCalledTimes(6)
    expect(vi.getTimerCount()).toBe(0)
  })

  test('a condition may answer at any time before the deadline, and leaves no timer', async () => {
    const slow = expect(until(() => later(99), { deadlineMs: 100 })).resolves.toBe('late')
    await vi.advanceTimersByTimeAsync(99)
    await slow
    expect(vi.getTimerCount()).toBe(0)
  })

  test('a condition that answers after the deadline is abandoned at the deadline', async () => {
    const tooSlow = expect(until(() => later(500), { deadlineMs: 100 })).rejects.toThrow(
      DeadlineError,
    )
    await vi.advanceTimersByTimeAsync(100)
    await tooSlow
  })
})

test('the error keeps what the condition threw last, also if it is no Error', async () => {
  const refused = until(() => Promise.reject('refused'), { what: 'it', deadlineMs: 0 })
  await expect(refused).rejects.toMatchObject({
    message: 'waited 0 ms for: it; last error: refused',
    cause: 'refused',
  })
})

test('the error does not repeat what the condition threw before it answered', async () => {
  let calls = 0
  const early = (): boolean => {
    calls += 1
    if (calls === 1) throw new Error('too early')
    return false
  }
  const missed = until(early, { what: 'it', deadlineMs: 500, everyMs: 600 })
  await expect(missed).rejects.toMatchObject({
    message: 'waited 500 ms for: it',
    cause: undefined,
  })
})

test('the source of a long condition is shown on one line, and cut', async () => {
  const long = (): boolean => {
    const words = 'a condition of many words'.split(' ')
    const others = 'and of some more of them, on several lines'.split(' ')
    const last = 'so that its source takes more than two hundred characters'.split(' ')
    return [...words, ...others, ...last].length === 0
  }
  const error = await until(long, { deadlineMs: 0 }).catch((thrown: unknown) => String(thrown))
  const [, shown] = /^DeadlineError: waited 0 ms for: (.*)$/.exec(String(error)) ?? []
  expect(shown).toHaveLength(200)
  expect(shown).not.toMatch(/ {2}/)
})
