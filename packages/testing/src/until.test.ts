import { expect, test } from 'vitest'
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
