import { ConfigurationError } from '@onceward/core'
import { describe, expect, test } from 'vitest'
import type { PoolLike } from '../client.ts'
import type { DeadLetterFilter, DeadLetterTarget } from './dead-letter-filter.ts'
import { deadLetters } from './dead-letters.ts'

let connects = 0
const pool: PoolLike = {
  connect: () => {
    connects += 1
    return Promise.reject(new Error('connected'))
  },
}
const letters = deadLetters(pool)

/** Values that a program without types may pass. */
const asTarget = (target: unknown): DeadLetterTarget => target as DeadLetterTarget
const asFilter = (filter: unknown): DeadLetterFilter => filter as DeadLetterFilter

async function refusalOf(act: () => Promise<unknown>): Promise<string> {
  connects = 0
  const error: unknown = await act().then(
    () => new Error('not refused'),
    (thrown: unknown) => thrown,
  )
  expect(error).toBeInstanceOf(ConfigurationError)
  expect(connects).toBe(0)
  return (error as Error).message
}

const SAYS_NOTHING: readonly (readonly [string, unknown, RegExp])[] = [
  ['an empty filter', {}, /a filter that says something.*\{ all: true \}` to (replay|discard) the/],
  ['a consumer that is undefined', { consumer: undefined }, /`consumer` is given but undefined/],
  [
    'undefined beside a reason',
    { consumer: undefined, reason: 'fatal' },
    /`consumer` is given but/,
  ],
  ['fields that are all undefined', { reason: undefined, since: undefined }, /says something/],
  ['a limit alone', { limit: 10 }, /says something/],
  [
    'a misspelt field',
    { consumr: 'billing' },
    /does not know "consumr", did you mean "consumer"\?/,
  ],
  [
    'a misspelt field beside another',
    { reason: 'fatal', Consumer: 'b' },
    /did you mean "consumer"/,
  ],
  ['an unknown reason', { reason: 'failed' }, /`reason` to be one of fatal, attempts-spent, /],
  ['an unknown kind', { kind: 'events' }, /`kind` to be one of event, refused, got "events"/],
  ['an empty consumer', { consumer: '' }, /`consumer` to be the name of a consumer, got ""/],
  ['a consumer with a NUL', { consumer: 'a\0b' }, /`consumer` to be the name of a consumer/],
  ['null for a consumer', { consumer: null }, /`consumer` to be .*, got null/],
  ['a list of consumers', { consumer: ['a', 'b'] }, /got a value of type object/],
  ['a date as text', { since: '2026-01-01' }, /`since` to be a valid Date, got "2026-01-01"/],
  ['an invalid date', { consumer: 'billing', until: new Date('x') }, /`until` to be a valid Date/],
  [
    'a limit that is no number',
    { consumer: 'billing', limit: Number.NaN },
    /`limit` to be an integer/,
  ],
  ['a negative limit', { consumer: 'billing', limit: -1 }, /`limit` to be an integer.*, got -1\./],
  ['a negative limit of all', { all: true, limit: -1 }, /`limit` to be an integer/],
  ['a limit as text', { consumer: 'billing', limit: '5' }, /`limit` to be an integer.*, got "5"/],
  ['all: false', { all: false }, /`all` to be true or left out/],
  ['all: undefined', { all: undefined }, /`all` to be true or left out/],
  ['all with a filter', { all: true, consumer: 'billing' }, /does not know "consumer"/],
  ['All', { All: true }, /does not know "All"/],
  ['nothing', undefined, /expected an object of options, got undefined/],
  ['null', null, /expected an object of options, got null/],
  ['a list of ids', ['a'], /expected an object of options, got an array/],
]

describe.each(['replay', 'discard'] as const)('%s checks its target before it connects', (verb) => {
  test.each(SAYS_NOTHING)('%s is refused', async (_name, target, message) => {
    const act = () => letters[verb](asTarget(target), 'a test')
    expect(await refusalOf(act)).toMatch(message)
    expect(await refusalOf(act)).toContain(`deadLetters.${verb}`)
  })

  test.each<readonly [DeadLetterTarget]>([
    [{ all: true }],
    [{ all: true, limit: 5 }],
    [{ all: true, limit: undefined }],
    [{ all: true, limit: 0 }],
    [{ consumer: 'billing' }],
    [{ consumer: 'billing', reason: undefined, limit: undefined }],
    [{ reason: 'attempts-spent' }],
    [{ reason: 'takeover' }],
    [{ kind: 'refused', since: new Date(0) }],
    [{ until: new Date() }],
    ['00000000-0000-4000-8000-000000000000'],
  ])('%j is accepted', async (target) => {
    await expect(letters[verb](target, 'a test')).rejects.toThrow('connected')
  })
})

describe('list', () => {
  const first = (filter?: DeadLetterFilter): Promise<unknown> =>
    letters.list(filter)[Symbol.asyncIterator]().next()

  test.each([
    [{ consumr: 'billing' }, /deadLetters\.list does not know "consumr", did you mean "consumer"/],
    [{ reason: 'dead' }, /`reason` to be one of/],
    [{ limit: Number.NaN }, /`limit` to be an integer/],
  ])('refuses %j', async (filter, message) => {
    expect(await refusalOf(() => first(asFilter(filter)))).toMatch(message)
  })

  test.each([[undefined], [{}], [{ consumer: undefined, limit: 3 }]])(
    'accepts %j',
    async (filter) => {
      await expect(first(filter)).rejects.toThrow('connected')
    },
  )
})

// Red before: the audit of the discard had no reason.
test.each([
  [undefined, 'undefined'],
  [null, 'null'],
  [5, 'number'],
  [{}, 'object'],
])('a discard with the reason %j is refused before it connects', async (why, got) => {
  const before = connects
  const discarding = deadLetters(pool).discard({ all: true }, why as never)
  await expect(discarding).rejects.toThrow(
    `Expected \`why\` of deadLetters.discard to be a string, got ${got}.`,
  )
  await expect(discarding).rejects.toBeInstanceOf(ConfigurationError)
  expect(connects).toBe(before)
})
