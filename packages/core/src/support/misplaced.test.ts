import { describe, expect, test } from 'vitest'
import { ConfigurationError } from '../model/errors.ts'
import {
  hasMethod,
  refuseOtherClient,
  refuseUnfitClient,
  unrunError,
  writeInstead,
} from './misplaced.ts'

const nothing = (): undefined => undefined
const pool = { connect: nothing, query: nothing, options: {} }
const kysely = { selectFrom: nothing, getExecutor: nothing }

test.each<[string, unknown, string | undefined]>([
  ['a text', 'postgres://host/db', 'Give an inbox on a client'],
  ['a URL', new URL('postgres://host/db'), 'Give an inbox on a client'],
  ['a pool', pool, 'pgInbox(pool)'],
  ['a pool without query', { connect: nothing }, undefined],
  ['a Kysely', kysely, 'kyselyInbox(db)'],
  ['half a Kysely', { selectFrom: nothing }, undefined],
  ['ioredis', { evalsha: nothing }, 'Redis cannot be an inbox'],
  ['node-redis', { evalSha: nothing }, 'Redis cannot be an inbox'],
  ['leases', { claim: nothing, renew: nothing }, 'A lease store cannot be an inbox'],
  ['half of leases', { claim: nothing }, undefined],
  ['a promise', Promise.resolve(), 'Await the promise first.'],
  ['a function', nothing, 'Call the function'],
  ['a number', 5, undefined],
  ['null', null, undefined],
])('%s in the place of an inbox', (_name, value, advice) => {
  const told = writeInstead('inbox', value)
  expect(told).toEqual(advice === undefined ? undefined : expect.stringContaining(advice))
})

test('a method is asked for without throwing', () => {
  expect([hasMethod(pool, 'query'), hasMethod(pool, 'options')]).toEqual([true, false])
  expect([hasMethod(null, 'query'), hasMethod(undefined, 'query')]).toEqual([false, false])
})

describe('a client', () => {
  test('that fits is accepted', () => {
    expect(() => refuseOtherClient('pgInbox', pool)).not.toThrow()
    expect(() => refuseOtherClient('kyselyInbox', kysely)).not.toThrow()
  })

  test.each([
    ['without its options', 'pgInbox', { connect: nothing, query: nothing }, 'object'],
    ['without a method', 'pgInbox', { connect: nothing, options: {} }, 'object'],
    ['without all methods', 'kyselyInbox', { selectFrom: nothing }, 'object'],
    ['that is null', 'kyselyInbox', null, 'null'],
    ['that is missing', 'pgInbox', undefined, 'undefined'],
  ] as const)('%s is refused', (_name, place, value, got) => {
    expect(() => refuseOtherClient(place, value)).toThrow(ConfigurationError)
    expect(() => refuseOtherClient(place, value)).toThrow(`, got ${got}. `)
  })

  test('of a broker needs all methods that its adapter calls', () => {
    const client = {
      ...{ place: 'consume', expected: 'a client', advice: 'Give one.' },
      methods: ['send', 'destroy'],
    }
    expect(() => refuseUnfitClient(client, { send: nothing, destroy: nothing })).not.toThrow()
    expect(() => refuseUnfitClient(client, { send: nothing })).toThrow(
      'Expected consume to get a client, got object. Give one.',
    )
  })
})

test.each([
  ['a function', () => undefined, true],
  ['a generator', { next: () => undefined }, true],
  ['a query', { execute: () => undefined }, true],
  ['an object', {}, false],
  ['nothing', undefined, false],
])('a handler that returns %s', (_, returned, isUnrun) => {
  expect(unrunError(returned) !== undefined).toBe(isUnrun)
})

test.each([
  ['leases', 'text', 'Give leases on a client: `leases: redisLeases(new Redis(url))`.'],
  ['pgInbox', 'text', 'Write `pgInbox(new Pool({ connectionString }))`.'],
  [
    'kyselyInbox',
    { connect: () => undefined, query: () => undefined },
    'Write `pgInbox(pool)`, or',
  ],
  ['postgresLeases', 'text', 'Write `postgresLeases(new Pool({ connectionString }))`.'],
  ['redisLeases', 'text', 'Write `redisLeases(new Redis(url))`.'],
] as const)('what was meant in the place of %s is written', (place, value, written) => {
  expect(writeInstead(place, value)).toContain(written)
})
