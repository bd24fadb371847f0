import { describe, expect, test, vi } from 'vitest'
import { z } from 'zod'
import { systemRuntime } from '../concurrency/system-runtime.ts'
import { silent } from '../fixtures/inbox.ts'
import { fingerprintRuleOf } from '../identity/fingerprint.ts'
import { memoryInbox, memoryLeases } from '../memory/index.ts'
import { ConfigurationError } from '../model/errors.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import { DEFAULTS } from '../options/table.ts'
import { createBatchGuard, createGuard } from './guard.ts'
import { defaultLogger, resolveOptions } from './resolve-options.ts'

const inbox = memoryInbox()
const leases = memoryLeases()
const good = { consumer: 'billing', inbox }

/** Options as a JavaScript user passes them: unchecked. */
const resolve = (options: unknown): ResolvedOptions =>
  resolveOptions(options as Parameters<typeof resolveOptions>[0])
const problemsOf = (options: unknown): readonly string[] => {
  try {
    resolve(options)
    return []
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error
    return error.message.split('\n')
  }
}

test('fills in the defaults, which are frozen', () => {
  expect(resolve(good)).toMatchObject({
    ...DEFAULTS,
    consumer: 'billing',
    inbox,
    concurrencyChosen: false,
    fingerprintRule: 1,
    runtime: systemRuntime,
  })
  expect(resolve(good).eventKey).toHaveLength(5)
  expect(Object.isFrozen(resolve(good))).toBe(true)
  expect(Object.isFrozen(DEFAULTS) && Object.isFrozen(DEFAULTS.retry)).toBe(true)
})

test("the list of resolvers is the guard's own: what becomes of the user's changes no identity", () => {
  const eventKey = [() => 'k', () => 'l']
  const resolved = resolve({ ...good, eventKey })
  eventKey.pop()
  expect(resolved.eventKey).toHaveLength(2)
})

test('is chosen by the user or not: the ordering key', () => {
  expect(resolve(good).orderingKeyChosen).toBe(false)
  expect(resolve({ ...good, orderingKey: () => 'lane' }).orderingKeyChosen).toBe(true)
})

test('keeps the lanes of the broker unless the user chooses others', () => {
  const lane = { orderingKey: 'account-1' } as never
  expect(resolve(good).orderingKey(lane)).toBe('account-1')
  expect(resolve({ ...good, orderingKey: () => 'own' }).orderingKey(lane)).toBe('own')
})

test('knows whether code of the user reads messages', () => {
  expect(resolve(good).readsByUser).toBe(false)
  for (const fingerprint of ['body', 'none'] as const)
    expect(resolve({ ...good, fingerprint }).readsByUser).toBe(false)
  for (const name of ['decode', 'skip', 'eventKey', 'tenant', 'orderingKey', 'fingerprint'])
    expect([name, resolve({ ...good, [name]: () => 'x' }).readsByUser]).toEqual([name, true])
  expect(resolve({ ...good, schema: z.unknown() }).readsByUser).toBe(true)
})

test('gives handlers the logger of the user', () => {
  expect(resolve({ ...good, logger: silent }).handlerLogger).toBe(silent)
  expect(resolve(good).handlerLogger).toBe(defaultLogger)
})

test('says once what shows at every event', () => {
  const warn = vi.fn()
  const { reportOnce } = resolve({ ...good, logger: { ...silent, warn } })
  for (const message of ['one', 'two', 'one', 'two']) reportOnce('warn', {}, message)
  expect(warn.mock.calls).toEqual([
    [{}, 'one'],
    [{}, 'two'],
  ])
})

test('says another thing however much there was to say of one', () => {
  const warn = vi.fn()
  const { reportOnce } = resolve({ ...good, logger: { ...silent, warn } })
  for (let n = 0; n < 150; n += 1) reportOnce('warn', {}, 'a number is rounded', `$.at.${n}`)
  reportOnce('warn', {}, 'decode answered a value of the wrong type')
  expect(warn).toHaveBeenCalledTimes(101)
  expect(warn).toHaveBeenLastCalledWith({}, 'decode answered a value of the wrong type')
})

test('is refused where something has replaced the global Promise, whose promises async functions do not make', () => {
  const { Promise: ours } = globalThis
  const replaced = class extends ours<unknown> {}
  try {
    Object.assign(globalThis, { Promise: replaced })
    expect(problemsOf(good)).toEqual([expect.stringContaining('as zone.js does')])
  } finally {
    Object.assign(globalThis, { Promise: ours })
  }
  expect(problemsOf(good)).toEqual([])
})

test('keeps the given options and treats undefined as not given', () => {
  const key = () => 'k'
  const given = {
    ...good,
    leases,
    concurrency: 3,
    retry: { attempts: 2, baseMs: undefined },
    leaseMs: undefined,
    eventKey: key,
    fingerprint: () => 1,
    schema: z.object({}),
    logger: console,
    transaction: 'batch',
  }
  expect(resolve(given)).toMatchObject({
    leases,
    concurrency: 3,
    concurrencyChosen: true,
    retry: { ...DEFAULTS.retry, attempts: 2 },
    leaseMs: DEFAULTS.leaseMs,
    eventKey: [key],
    fingerprintRule: fingerprintRuleOf(given.fingerprint, undefined),
    transaction: 'batch',
  })
})

test('an error names the rule, the value, its type and the next step', () => {
  expect(problemsOf({ ...good, leaseMs: 30 })).toEqual([
    'Expected `leaseMs` to be an integer from 1000 to 43200000, got `30` (number). Units are milliseconds.',
  ])
})

test('names all problems in one error', () => {
  const problems = problemsOf({
    consumer: 'bil ling',
    leaseMs: '30s',
    deadlineMs: Number.POSITIVE_INFINITY,
    retry: { attempts: 0, maxMs: 1.5 },
    onConflict: 'ignore',
    logger: { info: () => undefined },
    schema: {},
    eventKey: [],
    dedupWindow: 5,
  })
  const named = problems.map((problem) => /[`"]([^`"]+)[`"]/.exec(problem)?.[1])
  expect(named).toEqual([
    'consumer',
    'schema',
    'eventKey',
    'deadlineMs',
    'retry.attempts',
    'retry.maxMs',
    'leaseMs',
    'onConflict',
    'logger',
    'dedupWindow',
    'inbox',
  ])
})

test('errors show only primitive option values', () => {
  const [problem] = problemsOf({ ...good, inbox: { password: 'secret' } })
  expect(problem).toBe('Expected `inbox` to be an inbox, got `{…}` (object).')
  const [long] = problemsOf({ ...good, consumer: 'x'.repeat(500) })
  expect(long?.length).toBeLessThan(300)
})

test('an inbox per tenant is refused, with what to do', () => {
  const [problem] = problemsOf({ ...good, inbox: () => good.inbox })
  expect(problem).toMatch(/^Expected `inbox` to be an inbox, got .*\bmake a guard per tenant/)
})

describe('options that are invalid together', () => {
  test.each([
    ['no store at all', { consumer: 'c' }, 'neither'],
    ['leases without an inbox and without onTakeover', { consumer: 'c', leases }, 'onTakeover'],
    [
      'a transaction without an inbox',
      { consumer: 'c', leases, onTakeover: 'retry', transaction: 'each' },
      'transaction',
    ],
    ['onTakeover with an inbox', { ...good, onTakeover: 'retry' }, 'onTakeover'],
    ['onStoreDown with an inbox', { ...good, onStoreDown: 'wait' }, 'onStoreDown'],
  ])('%s', (_name, options, named) => {
    const problems = problemsOf(options)
    expect(problems).toHaveLength(1)
    expect(problems[0]).toContain(named)
  })
  test('leases without an inbox are valid with a policy', () => {
    expect(problemsOf({ consumer: 'c', leases, onTakeover: 'retry', onStoreDown: 'wait' })).toEqual(
      [],
    )
  })
})

describe('a consumer', () => {
  test.each(['a', 'A.b_c:d-9', 'x'.repeat(128)])('may be named %s', (consumer) => {
    expect(problemsOf({ ...good, consumer })).toEqual([])
  })
  test.each(['', 'x'.repeat(129), 'a b', 'a/b', 'é', 'a\n', 5, undefined, null])(
    'may not be named %j',
    (consumer) => {
      expect(problemsOf({ ...good, consumer })).toHaveLength(1)
    },
  )
})

test.each([undefined, null, 'billing', 5])(
  'options that are not an object are refused: %j',
  (options) => {
    expect(problemsOf(options)).toHaveLength(1)
  },
)

test.each([
  ['retry', { retry: 5 }],
  ['retry', { retry: null }],
  ['retry', { retry: [] }],
  ['eventKey', { eventKey: [() => 'k', 'id'] }],
  ['concurrency', { concurrency: 0 }],
  ['claimWaitMs', { claimWaitMs: 0 }],
  ['fingerprint', { fingerprint: 'headers' }],
  ['decode', { decode: null }],
  ['runtime', { runtime: { ...systemRuntime, now: 5 } }],
  ['leases', { leases: { claim: () => [] } }],
])('refuses an invalid %s', (name, given) => {
  const problems = problemsOf({ ...good, logger: silent, ...given })
  expect(problems).toHaveLength(1)
  expect(problems[0]).toContain(`\`${name}`)
})

test('suggests the closest name for a misspelt option', () => {
  const options = { consumer: 'billing', inbox: memoryInbox(), leaseMS: 5, retry: { atempts: 2 } }
  expect(() => resolveOptions(options as never)).toThrow(
    /createGuard does not know "leaseMS", did you mean "leaseMs"\?/,
  )
  expect(() => resolveOptions(options as never)).toThrow(
    /"retry.atempts", did you mean "retry.attempts"\?/,
  )
})

test('names of the retry with a dot are no options', () => {
  expect(problemsOf({ ...good, 'retry.attempts': 2 })).toEqual([
    'createGuard does not know "retry.attempts", did you mean "retry"?',
  ])
})

test.each([createGuard, createBatchGuard as unknown as typeof createGuard])(
  '%o is named in what it refuses',
  (create) => {
    const options = { consumer: 'billing', inbox: memoryInbox(), leaseMS: 5 }
    expect(() => create(options as never, () => undefined)).toThrow(
      `${create.name} does not know "leaseMS", did you mean "leaseMs"?`,
    )
  },
)

test.each(['postgres://app:hunter2@db/app', 'amqps://hunter2@queue'])(
  'does not show a connection string that was given as consumer',
  (consumer) => {
    const options = { consumer, inbox: memoryInbox() }
    expect(() => resolveOptions(options)).toThrow(/Expected `consumer` to be 1–128 of/)
    expect(() => resolveOptions(options)).not.toThrow(/hunter2/)
  },
)

describe('options on a prototype are refused, because a copy of the options would not have them', () => {
  class Shared {
    readonly consumer = 'billing'
    readonly inbox = inbox
    get retry() {
      return { attempts: 1 }
    }
    tenant(): string {
      return 'acme'
    }
  }
  const told = /`tenant` to be a member .*\n.*`retry` to be a member .*, got one of their prototype/

  // Red when they are left out: the events of one tenant were duplicates of those of another.
  test('by createGuard and createBatchGuard', () => {
    expect(() => createGuard(new Shared(), () => undefined)).toThrow(told)
    expect(() => createBatchGuard(new Shared(), () => undefined)).toThrow(told)
    expect(() => createGuard(Object.create(new Shared()), () => undefined)).toThrow(told)
  })

  test('and a class whose options are its own members is taken', () => {
    class Own {
      readonly consumer = 'billing'
      readonly inbox = inbox
      readonly tenant = (): string => 'acme'
      describe(): string {
        return this.consumer
      }
    }
    expect(problemsOf(new Own())).toEqual([])
    expect(() => createBatchGuard(new Own(), () => undefined)).not.toThrow()
  })
})
