import { expect, test } from 'vitest'
import { setUp } from '../fixtures/guard.ts'
import { toDelivery } from '../memory/index.ts'
import { RetryableError } from '../model/errors.ts'
import type { Handler } from '../options/options.ts'

test('a handler past its deadline is a failure, and the consumer continues', async () => {
  const { guard } = setUp(() => new Promise(() => undefined), { deadlineMs: 1_000 })
  expect(await guard.process(toDelivery({}))).toMatchObject({
    kind: 'defer',
    reason: 'failed',
    error: { code: 'ONCEWARD_DEADLINE_EXCEEDED' },
  })
  await guard.close()
})

test.each([
  ['undefined', undefined],
  ['a string', 'oops'],
  ['null', null],
])('a handler that throws %s fails like any other handler', async (_, thrown) => {
  const { guard } = setUp(() => {
    throw thrown
  })
  expect(await guard.process(toDelivery({}))).toMatchObject({ kind: 'defer', reason: 'failed' })
  await guard.close()
})

test.each([
  ['a BigInt', () => 5n],
  ['a Map', () => new Map()],
  ['too much', () => 'x'.repeat(65_536)],
  [
    'a circle',
    () => {
      const circle: Record<string, unknown> = {}
      circle['self'] = circle
      return circle
    },
  ],
])('a handler that returns %s is rolled back, and the error names the cause', async (_, value) => {
  const { guard } = setUp(value as unknown as Handler<unknown, undefined>)
  const settlement = await guard.process(toDelivery({}))
  // Red before: a handler that returned its driver's result dead-lettered every event at once.
  expect(settlement).toMatchObject({ kind: 'defer', error: { code: 'ONCEWARD_RETRYABLE' } })
  await guard.close()
})

test('a decoder that asks for a retry defers the message, and nothing is refused', async () => {
  const { guard, inbox } = setUp(() => undefined, {
    decode: () => {
      throw new RetryableError('the schema registry is down', { afterMs: 50 })
    },
  })
  expect(await guard.process(toDelivery({}))).toMatchObject({ kind: 'defer', reason: 'failed' })
  expect(inbox.deadLetters()).toEqual([])
  await guard.close()
})

test('a result with NULs and lone surrogates is stored and replayed unchanged', async () => {
  const value = { 'a\0b': 'c\0d\ud800' }
  const { guard } = setUp(() => value)
  const delivery = toDelivery({})
  await guard.process(delivery)
  expect(await guard.process(delivery)).toEqual({ kind: 'ack', by: 'duplicate', result: value })
  await guard.close()
})
