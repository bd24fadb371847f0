import { setImmediate as turn } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { Clock } from '../fixtures/clock.ts'
import { silent } from '../fixtures/inbox.ts'
import { never, ODD_ANSWERS, ODD_ERRORS } from '../fixtures/misbehaviour.ts'
import { AS_OPTION, BAD, GOOD_1, GOOD_2, make, STORES } from '../fixtures/user-functions.ts'
import { eventIdOf } from '../identity/event-id.ts'
import { memoryLeases } from '../memory/index.ts'
import type { Fingerprint, OwnerToken } from '../model/brands.ts'
import type { Settlement } from '../model/settlement.ts'
import { OPTIONS } from '../options/table.ts'
import { USER_FUNCTIONS, type UserFunctionName } from '../options/user-functions.ts'
import { createGuard } from './guard.ts'

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

/** The settlement of the bad message, alone and then between two good ones, which are always processed. */
async function settle(name: Name, store: keyof typeof STORES, odd: () => unknown) {
  const settlements: Settlement[] = []
  const { clock, guard } = make(store, AS_OPTION[name](odd))
  // A duplicate is needed to call onDuplicate.
  if (name === 'onDuplicate') await clock.until(guard.process(BAD))
  settlements.push(await clock.until(guard.process(BAD)))
  await clock.until(guard.close())
  const beside = make(store, AS_OPTION[name](odd))
  const all = await beside.clock.until(beside.guard.processBatch([GOOD_1, BAD, GOOD_2]))
  expect(all.map(({ kind }) => kind)).toEqual(['ack', expect.any(String), 'ack'])
  expect(all[0]).toMatchObject({ by: 'processed' })
  expect(all[2]).toMatchObject({ by: 'processed' })
  settlements.push(all[1] as Settlement)
  await beside.clock.until(beside.guard.close())
  expect([clock.timers, beside.clock.timers]).toEqual([0, 0])
  return settlements
}

const KIND_AFTER: Readonly<Record<string, readonly string[]>> = {
  'dead-letter': ['dead-letter'],
  retry: ['defer'],
  fails: ['defer'],
  retryable: ['defer'],
  blocked: ['defer'],
  awaited: ['ack'],
  settled: ['ack'],
  reported: ['ack'],
  ignored: ['ack'],
}

describe.each(Object.keys(STORES) as (keyof typeof STORES)[])('with %s', (store) => {
  describe.each(NAMES)('a %s', (name) => {
    const rule = USER_FUNCTIONS[name]

    test.each(ODD_ERRORS)(
      'that throws %s ends its message as the table says',
      async (_, thrown) => {
        const throws = await settle(name, store, () => {
          throw thrown
        })
        const rejects = await settle(name, store, () => Promise.reject(thrown))
        // A rejected promise of isFatal is a promise first.
        for (const { kind } of [...throws, ...rejects])
          expect(KIND_AFTER[rule.throws]).toContain(kind)
      },
    )

    test.each(ODD_ANSWERS)('that answers %s loses nothing', async (_, answer) => {
      const mayAck = ['ignored', 'settled', 'any'].includes(rule.nonsense) || name === 'handler'
      // Every text, and a key that is a number, is a right answer of a resolver; so is every JSON for a fingerprint.
      const isRight = ['eventKey', 'tenant', 'orderingKey', 'fingerprint'].includes(name)
      for (const { kind } of await settle(name, store, answer)) {
        if (!(mayAck || isRight)) expect(kind).not.toBe('ack')
      }
      for (const { kind } of await settle(name, store, async () => answer())) {
        if (!(mayAck || isRight)) expect(kind).not.toBe('ack')
      }
    })

    test('that never answers holds up neither its neighbours nor close()', async () => {
      for (const { kind } of await settle(name, store, never)) {
        expect(KIND_AFTER[rule.silence]).toContain(kind)
      }
    })

    test('that rejects after it was given up ends nothing', async () => {
      const late: (() => void)[] = []
      await settle(name, store, () => {
        const { promise, reject } = Promise.withResolvers<never>()
        late.push(() => reject(new Error('late')))
        return promise
      })
      for (const reject of late) reject()
    })
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
    const { guard } = make('a memory inbox', given)
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
    const { guard } = make('a memory inbox', given)
    for (let n = 0; n < 3; n += 1)
      await guard.process({ ...BAD, headers: { 'idempotency-key': `bad-${n}` } })
    expect(lines).toHaveLength(1)
    await guard.close()
  })
})

test('onTakeover with a wrong answer fails the attempt, and the handler does not run', async () => {
  for (const [, answer] of ODD_ANSWERS) {
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
