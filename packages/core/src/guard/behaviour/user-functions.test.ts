import { setImmediate as turn } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { Clock } from '../../fixtures/clock.ts'
import { silent } from '../../fixtures/inbox.ts'
import {
  type Consequence,
  USER_FUNCTIONS,
  type UserFunctionName,
  type UserFunctionRule,
} from '../../fixtures/user-function-rules.ts'
import { AS_OPTION, BAD, GOOD_1, GOOD_2, make } from '../../fixtures/user-functions.ts'
import { eventIdOf } from '../../identity/event-id.ts'
import { memoryLeases } from '../../memory/index.ts'
import type { Fingerprint, OwnerToken } from '../../model/brands.ts'
import { OPTIONS } from '../../options/table.ts'
import { createGuard } from '../guard.ts'

type Name = Exclude<UserFunctionName, 'connection' | 'onTakeover'>
const NAMES = Object.keys(AS_OPTION) as readonly Name[]

const unhandled: unknown[] = []
const onUnhandled = (error: unknown): void => void unhandled.push(error)
beforeEach(() => {
  unhandled.length = 0
  process.on('unhandledRejection', onUnhandled)
})
afterEach(async () => {
  for (let n = 0; n < 3; n += 1) await turn()
  process.off('unhandledRejection', onUnhandled)
  expect(unhandled).toEqual([])
})

/** How the bad message is settled between two good ones, which are always processed. */
async function settle(name: Name, odd: () => unknown): Promise<string | undefined> {
  const { clock, guard } = make(AS_OPTION[name](odd))
  const kinds = (await clock.until(guard.processBatch([GOOD_1, BAD, GOOD_2]))).map((s) => s.kind)
  await clock.until(guard.close())
  expect([kinds[0], kinds[2], clock.timers]).toEqual(['ack', 'ack', 0])
  return kinds[1]
}

const KIND_AFTER: Readonly<Record<Exclude<Consequence, 'reconnects'>, string>> = {
  'dead-letter': 'dead-letter',
  again: 'defer',
  retry: 'defer',
  fails: 'defer',
  retryable: 'defer',
  blocked: 'defer',
  awaited: 'ack',
  redelivered: 'defer',
  settled: 'ack',
  reported: 'ack',
  ignored: 'ack',
  unread: 'ack',
  any: 'ack',
}

/** A promise of a value that suits the function, and a value that suits none. */
const RIGHT: Readonly<Partial<Record<Name, unknown>>> = {
  skip: false,
  split: ['bad'],
  type: 'good',
  schema: { value: 'bad' },
  eventKey: 'bad',
  tenant: 'shop',
  orderingKey: 'lane',
}
const WRONG = new Map([[1, 2]])

test.each(NAMES)('a %s that misbehaves ends its message as the table says', async (name) => {
  const rule = USER_FUNCTIONS[name] as Record<keyof UserFunctionRule, keyof typeof KIND_AFTER>
  const rejections: (() => void)[] = []
  const late = (): Promise<never> =>
    new Promise((_, reject) => rejections.push(() => reject(new Error('late'))))
  const settled = {
    throws: await settle(name, () => {
      throw new Error('why')
    }),
    promise: await settle(name, async () => RIGHT[name]),
    silence: await settle(name, late),
    nonsense: await settle(name, () => WRONG),
  }
  for (const reject of rejections) reject()
  expect(settled).toEqual({
    throws: KIND_AFTER[rule.throws],
    promise: KIND_AFTER[rule.promise],
    silence: KIND_AFTER[rule.silence],
    nonsense: KIND_AFTER[rule.nonsense],
  })
})

describe('the table of user functions', () => {
  test('has a row for every option that may be a function, and for the handler', () => {
    const functions = Object.entries(OPTIONS)
      .filter(([, { rule }]) => rule.accepts(() => undefined))
      .map(([name]) => name)
    const others = ['schema', 'logger', 'handler', 'connection']
    expect(Object.keys(USER_FUNCTIONS).toSorted()).toEqual([...functions, ...others].toSorted())
  })
})

describe('an answer of the wrong type', () => {
  test('is reported once, says what to write, and processBatch does not throw it', async () => {
    const lines: string[] = []
    const error = (_: object, message: string): void => void lines.push(message)
    const given = { ...AS_OPTION.skip(() => 'false'), logger: { ...silent, error } }
    const { guard } = make(given)
    for (let n = 0; n < 3; n += 1) {
      const [, settlement] = await guard.processBatch([GOOD_1, BAD])
      expect(settlement).toMatchObject({
        ...{ kind: 'defer', reason: 'failed', cause: 'identify-failed' },
        error: {
          code: 'ONCEWARD_CONFIGURATION',
          message: expect.stringMatching(/`skip`.*true or false/),
        },
      })
    }
    expect(lines).toEqual([
      'skip answered a value of the wrong type and its messages are retried: fix the function',
    ])
    await guard.close()
  })

  test('of isFatal is reported once', async () => {
    const lines: string[] = []
    const error = (_: object, message: string): void => void lines.push(message)
    const given = { ...AS_OPTION.isFatal(async () => true), logger: { ...silent, error } }
    const { guard } = make(given)
    for (let n = 0; n < 3; n += 1)
      await guard.process({ ...BAD, headers: { 'idempotency-key': `bad-${n}` } })
    expect(lines).toHaveLength(1)
    await guard.close()
  })
})

test('onTakeover with a wrong answer fails the attempt, and the handler does not run', async () => {
  for (const answer of [() => 'false', () => ({ kind: 'what' }), async () => undefined]) {
    const clock = new Clock()
    const leases = memoryLeases(clock.runtime)
    const id = eventIdOf('billing', undefined, 'bad')
    const ids = { id, fingerprint: 0n as Fingerprint, ownerToken: 'crashed' as OwnerToken }
    await leases.claim([{ ...ids, leaseMs: 1_000 }])
    clock.advance(1_001)
    const ran: unknown[] = []
    const common = { consumer: 'billing', leases, fingerprint: 'none', logger: silent } as const
    const guard = createGuard(
      { ...common, runtime: clock.runtime, onTakeover: answer as never },
      ({ payload }) => void ran.push(payload),
    )
    expect(await clock.until(guard.process(BAD))).toMatchObject({ kind: 'defer', reason: 'failed' })
    expect(ran).toEqual([])
    await clock.until(guard.close())
  }
})
