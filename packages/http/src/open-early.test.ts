import type { Logger } from '@onceward/core'
import { Clock } from '@onceward/testing/adapter'
import { expect, test, vi } from 'vitest'
import { openEarly } from './open-early.ts'

/** Stores that open when the test says so. */
function setUp() {
  const clock = new Clock()
  const state = { isDown: true }
  const open = vi.fn(async () => {
    if (state.isDown) throw new Error('the database is down')
  })
  const lines: (readonly [fields: object, message: string])[] = []
  const logger = {
    warn: (fields: object, message: string) => void lines.push([fields, message]),
  } as unknown as Logger
  const end = openEarly({ logger, open, runtime: clock.runtime })
  return { clock, end, lines, open, state }
}

test('stores are opened within a second, once if that succeeds', async () => {
  const { clock, lines, open, state } = setUp()
  state.isDown = false
  await clock.advance(499)
  expect(open).not.toHaveBeenCalled()
  await clock.advance(1)
  expect(open).toHaveBeenCalledTimes(1)
  expect(clock.timers).toBe(0)
  expect(lines).toEqual([])
})

test('stores that do not open are tried again after pauses that grow, each time with a line in the log', async () => {
  const { clock, lines, open, state } = setUp()
  await clock.advance(500)
  for (const [index, pauseMs] of [1_500, 2_500, 4_500, 8_500, 15_500, 15_500].entries()) {
    expect(open).toHaveBeenCalledTimes(index + 1)
    await clock.advance(pauseMs - 1)
    expect(open).toHaveBeenCalledTimes(index + 1)
    await clock.advance(1)
  }
  expect(lines).toHaveLength(7)
  expect(lines[0]).toEqual([
    { err: expect.objectContaining({ message: 'the database is down' }) },
    expect.stringMatching(/cannot run accepted deliveries yet and tries again: check the database/),
  ])
  state.isDown = false
  await clock.advance(15_500)
  expect(open).toHaveBeenCalledTimes(8)
  expect(clock.timers).toBe(0)
})

test('the timer does not keep the process alive', async () => {
  const { clock } = setUp()
  await clock.advance(2_000)
  expect(clock.asked).toHaveLength(3)
  expect(clock.asked.every(({ keepAlive }) => keepAlive === false)).toBe(true)
})

test('the end of the tries clears the timer', async () => {
  const { clock, end, open } = setUp()
  await clock.advance(500)
  expect(clock.timers).toBe(1)
  end()
  expect(clock.timers).toBe(0)
  await clock.advance(60_000)
  expect(open).toHaveBeenCalledTimes(1)
})

test('a try that fails after the end says nothing and is the last one', async () => {
  const { clock, end, lines, open } = setUp()
  const opening = Promise.withResolvers<void>()
  open.mockReturnValue(opening.promise)
  await clock.advance(500)
  end()
  opening.reject(new Error('closed'))
  await clock.advance(60_000)
  expect(open).toHaveBeenCalledTimes(1)
  expect(lines).toEqual([])
  expect(clock.timers).toBe(0)
})
