import { expect, test } from 'vitest'
import { systemRuntime } from './system-runtime.ts'
import { CallTimeoutError, withTimeout } from './timeout.ts'

const call = { call: 'connect', budgetMs: 5 }

test('answers what the call answers, or rejects as it does', async () => {
  expect(await withTimeout(systemRuntime, Promise.resolve('there'), call)).toBe('there')
  await expect(withTimeout(systemRuntime, Promise.reject(new Error('no')), call)).rejects.toThrow(
    'no',
  )
})

test('a call that does not answer ends with its time, as a socket does', async () => {
  const silent = new Promise<never>(() => undefined)
  const error = await withTimeout(systemRuntime, silent, call).catch((thrown: unknown) => thrown)
  expect(error).toBeInstanceOf(CallTimeoutError)
  expect(error).toMatchObject({ name: 'TimeoutError', code: 'ETIMEDOUT' })
  expect(String(error)).toBe('TimeoutError: connect got no answer within 5 ms')
})
