import { expect, test } from 'vitest'
import { afterAnswer, andThen, isPromise, isThenable } from './maybe-async.ts'

/** A promise of another library: not an instance of `Promise`. */
// biome-ignore lint/suspicious/noThenProperty: promises of other libraries have one
const foreign = { then: (resolve: (value: number) => void) => resolve(1) } as PromiseLike<number>

test.each<[string, unknown, boolean, boolean]>([
  ['a promise', Promise.resolve(1), true, true],
  ['a promise of another library', foreign, false, true],
  ['an object', {}, false, false],
  ['null', null, false, false],
  ['nothing', undefined, false, false],
  ['a text', 'then', false, false],
])('%s is told from a value', (_what, value, ours, waited) => {
  expect([isPromise(value), isThenable(value)]).toEqual([ours, waited])
})

const next = (value: unknown): unknown => [value]

test('what follows a value is called at once, and what follows a promise after it', async () => {
  expect(andThen(1, next)).toEqual([1])
  expect(afterAnswer(1, next)).toEqual([1])
  const following = [andThen(Promise.resolve(1), next), afterAnswer(foreign, next)]
  expect(following.every((each) => each instanceof Promise)).toBe(true)
  expect(await Promise.all(following)).toEqual([[1], [1]])
})
