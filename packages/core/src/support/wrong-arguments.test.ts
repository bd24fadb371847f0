import { expect, test } from 'vitest'
import { memoryInbox, memoryLeases } from '../memory/index.ts'
import { ConfigurationError } from '../model/errors.ts'
import {
  adviceFor,
  type KnownNames,
  nameProblems,
  refuseUnfitClient,
  refuseUnknownNames,
} from './wrong-arguments.ts'

interface Options {
  readonly queueUrl?: string
  readonly visibilityMs?: number
  readonly signal?: unknown
  readonly by?: string
}
const KNOWN: KnownNames<Options> = { queueUrl: true, visibilityMs: true, signal: true, by: true }
const nothing = (): undefined => undefined

function problemOf(options: unknown): string {
  try {
    refuseUnknownNames('consumeSqs', options as Options, KNOWN)
    return 'none'
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigurationError)
    return (error as Error).message
  }
}

test.each([
  ['queueURL', 'queueUrl'],
  ['queue_url', 'queueUrl'],
  ['queueUlr', 'queueUrl'],
  ['visibilityTimeoutMs', 'visibilityMs'],
  ['visibility', 'visibilityMs'],
  ['signals', 'signal'],
])('the unknown name %s is refused, and %s is suggested', (name, meant) => {
  expect(problemOf({ [name]: 1 })).toBe(
    `consumeSqs does not know "${name}", did you mean "${meant}"?`,
  )
})

test.each(['x', 'prefetch', 'constructor', ''])(
  'the unknown name "%s" is refused with the list of names, because none is near',
  (name) => {
    expect(problemOf({ [name]: 1 })).toBe(
      `consumeSqs does not know "${name}". It knows: queueUrl, visibilityMs, signal, by.`,
    )
  },
)

test('one error has all problems, and names that are undefined are none', () => {
  expect(problemOf({ queueURL: 1, prefetch: 1, other: undefined }).split('\n')).toHaveLength(2)
  expect(problemOf({ queueUrl: 'q', signal: undefined })).toBe('none')
})

test.each([
  ['null', null],
  ['string', 'postgres://user:hunter2@db/app'],
  ['an array', ['postgres://user:hunter2@db/app']],
])('%s in the place of options is refused, and not shown', (got, options) => {
  expect(problemOf(options)).toBe(`consumeSqs expected an object of options, got ${got}.`)
})

test('a name that is a connection string or very long is not shown', () => {
  expect(problemOf({ 'postgres://user:hunter2@db/app': 1 })).not.toContain('hunter2')
  expect(problemOf({ ['x'.repeat(100_000)]: 1 }).length).toBeLessThan(300)
})

// Red when a copy of the options loses a method of a class: events of two tenants would be duplicates.
test('a known name on the prototype is refused', () => {
  class Options {
    by(): string {
      return 'shop'
    }
  }
  expect(problemOf(new Options())).toMatch(/^Expected `by` to be a member of the options/)
})

test('names of a group are named and suggested with it', () => {
  const told = (name: string) => nameProblems('f', { [name]: 1 }, ['size', 'wait'], 'batch.')
  expect(told('sise')).toEqual(['f does not know "batch.sise", did you mean "batch.size"?'])
  expect(told('yyy')).toEqual(['f does not know "batch.yyy". It knows: batch.size, batch.wait.'])
})

test.each<[string, unknown, string | undefined]>([
  ['a URL', 'postgres://host/db', 'Make a client first'],
  ['a pool', { connect: nothing, query: nothing }, 'pgInbox(pool)'],
  ['a Kysely', { getExecutor: nothing }, 'kyselyInbox(db)'],
  ['ioredis', { evalsha: nothing }, 'redisLeases(redis)'],
  ['node-redis', { evalSha: nothing }, 'redisLeases(redis)'],
  ['a lease store', memoryLeases(), 'A lease store goes into `leases`'],
  ['an inbox', memoryInbox(), 'An inbox goes into `inbox`'],
  ['a promise', Promise.resolve(), 'Await the promise first.'],
  ['a function', nothing, 'Call the function first.'],
  ['a number', 5, undefined],
  ['null', null, undefined],
])('the advice for %s says where it belongs', (_, value, advice) => {
  const told = adviceFor(value)
  expect(told).toEqual(advice === undefined ? undefined : expect.stringContaining(advice))
})

test('a client needs all methods and the field that its user calls', () => {
  const rule = { expected: 'a client', methods: ['send'], field: 'options', advice: 'Give one.' }
  expect(() => refuseUnfitClient('consume', { send: nothing, options: {} }, rule)).not.toThrow()
  for (const value of [{ send: nothing }, { options: {} }]) {
    expect(() => refuseUnfitClient('consume', value, rule)).toThrow(
      'Expected consume to get a client, got object. Give one.',
    )
  }
})
