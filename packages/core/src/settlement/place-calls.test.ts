import { expect, test } from 'vitest'
import { CallTimeoutError } from '../concurrency/timeout.ts'
import { Clock } from '../fixtures/clock.ts'
import type { DeadLetter } from '../model/dead-letter.ts'
import { PlaceCalls, PUBLISH_BUDGET_MS } from './place-calls.ts'

const letter = {} as DeadLetter

/** A dead-letter place that answers as the test says. */
function placing() {
  const clock = new Clock()
  const world = { publish: async (): Promise<void> => undefined }
  const calls = new PlaceCalls(() => world.publish(), clock.runtime)
  return { clock, world, calls }
}

test('a call that fails, or that throws something else than an error, makes the place down until one succeeds', async () => {
  const { calls, clock, world } = placing()
  expect(await calls.call(letter)).toEqual({ kind: 'confirmed' })
  expect(calls.isDown).toBe(false)
  expect(calls.error.message).toBe('The dead-letter place does not answer.')
  world.publish = () => {
    throw 'no room'
  }
  expect(await calls.call(letter)).toEqual({ kind: 'failed', error: new Error('no room') })
  expect(calls.isDown).toBe(true)
  expect(calls.error).toEqual(new Error('no room'))
  world.publish = async () => undefined
  expect(await calls.call(letter)).toEqual({ kind: 'not-called', error: new Error('no room') })
  clock.advance(60_000)
  expect(await calls.call(letter)).toEqual({ kind: 'confirmed' })
  expect(calls.isDown).toBe(false)
})

test.each([
  ['confirms', true],
  ['fails', false],
])('a place that %s only after the time limit is down, and tells it later', async (_, confirms) => {
  const { calls, clock, world } = placing()
  const broker = Promise.withResolvers<void>()
  world.publish = () => broker.promise
  const calling = calls.call(letter)
  clock.advance(PUBLISH_BUDGET_MS)
  const end = await calling
  expect(end).toMatchObject({ kind: 'late', error: expect.any(CallTimeoutError) })
  expect(calls.isDown).toBe(true)
  if (confirms) broker.resolve()
  else broker.reject(new Error('no'))
  expect(await (end as { readonly answer: Promise<boolean> }).answer).toBe(confirms)
  expect(calls.isDown).toBe(!confirms)
})

test('nobody waits for a slot if no call has ended for a second, nor longer than for an answer', async () => {
  const { calls, clock } = placing()
  const held = await Promise.all(Array.from({ length: 8 }, () => calls.enter()))
  expect(held.every((release) => release !== undefined)).toBe(true)
  const waitedMs = async (each: () => void): Promise<number> => {
    let isOver = false
    const startedAtMs = clock.runtime.monotonic()
    const waiting = calls.enter().then((release) => {
      isOver = true
      expect(release).toBeUndefined()
    })
    while (!isOver) {
      each()
      await new Promise((resolve) => setImmediate(resolve))
      if (!isOver) clock.advance(500)
    }
    await waiting
    return clock.runtime.monotonic() - startedAtMs
  }
  expect(await waitedMs(() => undefined)).toBe(1_000)
  await calls.call(letter)
  expect(await waitedMs(() => undefined)).toBe(1_000)
  // Calls end all the time, but others get their slots.
  expect(await waitedMs(() => void calls.call(letter))).toBe(PUBLISH_BUDGET_MS)
  const next = calls.enter()
  held[0]?.()
  expect(await next).toBeTypeOf('function')
})
