import { StoreUnavailableError } from '@onceward/core'
import { type Runtime, systemRuntime } from '@onceward/core/ports'
import { expect, test } from 'vitest'
import { createTimeBudget, inBudget, LateError } from './time-budget.ts'

/** A clock that the test moves, and timers that it ends. */
function setUp(budgetMs = 20) {
  const clock = { nowMs: 1_000_000.25 }
  const timers = new Set<{ readonly end: () => void; readonly ms: number }>()
  const runtime: Runtime = {
    ...systemRuntime,
    random: () => 1,
    monotonic: () => clock.nowMs,
    setTimer: (end, ms) => {
      const timer = { end, ms }
      timers.add(timer)
      return () => void timers.delete(timer)
    },
  }
  const fire = (): void => {
    for (const { end } of timers) end()
  }
  return { clock, timers, runtime, fire, budget: createTimeBudget(runtime, budgetMs) }
}

const admits = ({ budget }: ReturnType<typeof setUp>): boolean => {
  try {
    budget.admit()
    return true
  } catch {
    return false
  }
}

test('an answer in time is the answer, and one that does not come is an error with the budget', async () => {
  const { runtime, timers, fire } = setUp()
  expect(await inBudget(Promise.resolve('yes'), { runtime, budgetMs: 30 })).toBe('yes')
  expect(timers.size).toBe(0)
  const late = inBudget(new Promise(() => undefined), { runtime, budgetMs: 30 })
  expect([...timers].map(({ ms }) => ms)).toEqual([30])
  fire()
  await expect(late).rejects.toThrow(LateError)
  await expect(late).rejects.toThrow('Redis did not answer within 30 ms.')
})

test('an answer in time costs no turn of the event loop, which a busy process would wait for', async () => {
  const { runtime } = setUp()
  let answer: string | undefined
  void inBudget(Promise.resolve('yes'), { runtime, budgetMs: 30 }).then((value) => {
    answer = value
  })
  for (let hop = 0; hop < 20; hop += 1) await Promise.resolve()
  expect(answer).toBe('yes')
})

// Red when a busy event loop, which runs the timer before it reads the socket, makes an outage of a healthy Redis.
test('an answer that has arrived when the timer of a busy process runs is not late', async () => {
  const { runtime, fire } = setUp()
  const arrived = Promise.withResolvers<string>()
  const asked = inBudget(arrived.promise, { runtime, budgetMs: 20 })
  setImmediate(() => arrived.resolve('yes'))
  fire()
  expect(await asked).toBe('yes')
})

test('after a failure Redis is left alone, until one call tries it and the next ones follow its success', async () => {
  const kit = setUp()
  const { budget, clock } = kit
  await expect(budget.watch(Promise.reject(new Error('gone')))).rejects.toThrow('gone')
  clock.nowMs += 0.5
  expect(() => budget.admit()).toThrow(StoreUnavailableError)
  // Not the text of a figure with many digits.
  expect(() => budget.admit()).toThrow(/\(gone\) and is asked again in 1000 ms/)
  try {
    budget.admit()
  } catch (error) {
    expect(error).toMatchObject({ cause: { message: 'gone' } })
  }
  clock.nowMs += 999.5
  expect([admits(kit), admits(kit)]).toEqual([true, false])
  expect(await budget.watch(Promise.resolve('here'))).toBe('here')
  expect([admits(kit), admits(kit)]).toEqual([true, true])
})

test('a call that is too late counts as a failure, and success that is told ends the pause', async () => {
  const kit = setUp()
  const { budget, fire } = kit
  const late = budget.watch(new Promise(() => undefined))
  fire()
  await expect(late).rejects.toThrow('within 20 ms')
  expect(admits(kit)).toBe(false)
  budget.succeeded()
  expect(admits(kit)).toBe(true)
})
