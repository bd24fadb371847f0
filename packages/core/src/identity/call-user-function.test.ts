import { describe, expect, test } from 'vitest'
import {
  FatalError,
  InvalidPayloadError,
  MissingKeyError,
  RetryableError,
} from '../model/errors.ts'
import { WrongAnswerError } from '../options/wrong-answer.ts'
import { callUserFunction, type Found } from './call-user-function.ts'

const ways = [
  ['at once', (value: () => unknown) => value()],
  ['later', async (value: () => unknown) => value()],
] as const

describe.each(ways)('a function of the user that ends %s', (_, end) => {
  test('gives its answer, and is no longer the one that runs', async () => {
    const found: Found = { calling: undefined }
    let during: unknown
    const answer = callUserFunction(found, 'eventKey', () => {
      during = found.calling
      return end(() => 5)
    })
    expect(during).toBe('eventKey')
    expect(await answer).toBe(5)
    expect(found.calling).toBeUndefined()
  })

  const thrownBy = async (error: unknown): Promise<unknown> => {
    try {
      await callUserFunction({}, 'eventKey', () =>
        end(() => {
          throw error
        }),
      )
    } catch (thrown) {
      return thrown
    }
    return 'nothing was thrown'
  }

  test.each<[string, unknown, string]>([
    ['an error', new RangeError('too long'), '`eventKey` threw RangeError: too long'],
    ['a text', 'secret', '`eventKey` threw string'],
    ['nothing', undefined, '`eventKey` threw undefined'],
  ])(
    'and throws %s is a failed read, with the name of the function',
    async (_name, error, message) => {
      const thrown = await thrownBy(error)
      expect(thrown).toBeInstanceOf(RetryableError)
      expect(thrown).toMatchObject({ message, cause: error })
    },
  )

  test.each<[string, unknown]>([
    ['the payload is invalid', new InvalidPayloadError('no')],
    ['a key is missing', new MissingKeyError('no')],
    ['the message is dead', new FatalError('no')],
    ['the message is retried', new RetryableError('later')],
    ['its answer is of the wrong type', new WrongAnswerError('skip', 5)],
  ])('can say that %s', async (_name, error) => {
    expect(await thrownBy(error)).toBe(error)
  })
})

test('an answer that is no promise is not waited for', () => {
  expect(callUserFunction({}, 'skip', () => 5)).toBe(5)
})

test('a function is the one that runs until its promise has ended', async () => {
  const gate = Promise.withResolvers<number>()
  const found: Found = {}
  const answer = callUserFunction(found, 'skip', () => gate.promise)
  await new Promise((resolve) => setImmediate(resolve))
  expect(found.calling).toBe('skip')
  gate.resolve(1)
  expect(await answer).toBe(1)
})
