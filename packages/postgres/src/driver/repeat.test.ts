import { StoreUnavailableError } from '@onceward/core'
import { systemRuntime } from '@onceward/core/ports'
import { expect, test } from 'vitest'
import { repeated } from './repeat.ts'

/** Records the pauses without waiting for them. */
function setUp(states: readonly (string | undefined)[], random = 0.5) {
  const pauses: number[] = []
  const runtime = {
    ...systemRuntime,
    random: () => random,
    setTimer: (callback: () => void, delayMs: number) => {
      pauses.push(delayMs)
      return systemRuntime.setTimer(callback, 0)
    },
  }
  let runs = 0
  const answer = repeated(runtime, async () => {
    const code = states[Math.min(runs, states.length - 1)]
    runs += 1
    if (code === undefined) return 'done'
    throw new StoreUnavailableError('failed', { cause: Object.assign(new Error('sql'), { code }) })
  })
  return { answer, pauses, runs: () => runs }
}

test('a transaction that lost a race is repeated after growing pauses', async () => {
  const { answer, pauses, runs } = setUp(['40001', '40P01', '40001', undefined])
  expect(await answer).toBe('done')
  expect(runs()).toBe(4)
  expect(pauses).toEqual([10, 15, 25])
})

test('two transactions that lost together pause for different times', async () => {
  const pausesAt = async (random: number) => {
    const { answer, pauses } = setUp(['40P01', undefined], random)
    await answer
    return pauses
  }
  expect(await pausesAt(0)).not.toEqual(await pausesAt(0.9))
})

test('a transaction that always loses is rejected with its error', async () => {
  const { answer, runs } = setUp(['40001'])
  await expect(answer).rejects.toMatchObject({ cause: { code: '40001' } })
  expect(runs()).toBe(6)
})

test('a connection without rights is followed by another one at once, up to a bound', async () => {
  const { answer, pauses, runs } = setUp(['42501', '42501', undefined])
  expect(await answer).toBe('done')
  expect([runs(), pauses]).toEqual([3, []])
  const never = setUp(['42501'])
  await expect(never.answer).rejects.toMatchObject({ cause: { code: '42501' } })
  expect(never.runs()).toBe(25)
})

test('a violation that a rebuilt index reports is repeated a few times', async () => {
  const { answer, runs } = setUp(['23505', '23505', undefined])
  expect([await answer, runs()]).toEqual(['done', 3])
  const never = setUp(['23505'])
  await expect(never.answer).rejects.toMatchObject({ cause: { code: '23505' } })
  expect(never.runs()).toBe(6)
})

test.each(['57P01', '23502', '55P03'])('SQLSTATE %s is not repeated', async (state) => {
  const { answer, runs } = setUp([state])
  await expect(answer).rejects.toMatchObject({ cause: { code: state } })
  expect(runs()).toBe(1)
})
