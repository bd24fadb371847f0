import { describe, expect, test } from 'vitest'
import { memoryInbox, memoryLeases } from '../../memory/index.ts'
import { portOf } from '../../model/guard-port.ts'
import { createBatchGuard, createCallerGuard, createGuard } from '../guard.ts'

const SECRET = 'hunter2'
const URL_TEXT = `postgres://billing:${SECRET}@db.internal:5432/shop`
const nothing = (): undefined => undefined
const pool = { connect: nothing, query: nothing, end: nothing, options: { password: SECRET } }
const kysely = { selectFrom: nothing, getExecutor: nothing, transaction: nothing }
const ioredis = { connect: nothing, evalsha: nothing, script: nothing }

const messageOf = (call: () => unknown): string => {
  try {
    call()
  } catch (error) {
    expect(error).toMatchObject({ code: 'ONCEWARD_CONFIGURATION' })
    return (error as Error).message
  }
  throw new Error('nothing was thrown')
}

// Red before: a TypeError, an advice that does not help, or a guard that failed at its first event.
describe('a guard with something else in the place of', () => {
  test.each<[string, object]>([
    ['A pool of pg', { inbox: pool }],
    ['A Kysely instance', { inbox: kysely }],
    ['A lease store', { inbox: memoryLeases() }],
    ['Call the function first.', { inbox: memoryInbox }],
    ['Make a client first', { inbox: URL_TEXT }],
    ['A Redis client', { leases: ioredis, onTakeover: 'retry' }],
    ['An inbox', { leases: memoryInbox(), onTakeover: 'retry' }],
  ])('a store: %s', (advice, options) => {
    const message = messageOf(() =>
      createGuard({ consumer: 'billing', ...options } as never, nothing),
    )
    expect(message).toContain(advice)
    expect(message).not.toContain(SECRET)
  })

  // Red before for null: 'got object'.
  test.each<[string, unknown]>([
    ['undefined', undefined],
    ['null', null],
    ['string', URL_TEXT],
  ])('the options: %s', (got, options) => {
    const message = `Expected an object of options first, got ${got}.`
    expect(messageOf(() => createGuard(options as never, nothing))).toBe(message)
    expect(messageOf(() => createBatchGuard(options as never, nothing))).toBe(message)
  })

  test('the options of a function of another package, which the error names', () => {
    const make = () =>
      createCallerGuard('createHttpGuard', { consumer: 'billing', inbx: 1 } as never, {
        handler: nothing,
        isAnswer: () => false,
      })
    expect(messageOf(make)).toContain('createHttpGuard does not know "inbx", did you mean "inbox"?')
  })

  test.each<[string, unknown, string]>([
    ['none', undefined, 'got undefined'],
    ['null', null, 'got null'],
    ['an object', {}, 'got object'],
    ['a promise', Promise.resolve(nothing), 'got object'],
  ])('the handler: %s', (_, handler, got) => {
    const inbox = memoryInbox()
    const make = () => createGuard({ consumer: 'billing', inbox }, handler as never)
    expect(messageOf(make)).toContain(got)
    expect(messageOf(make)).toContain('createGuard(options, async (event, { tx }) => { … })')
    const batch = () => createBatchGuard({ consumer: 'billing', inbox }, handler as never)
    expect(messageOf(batch)).toContain('createBatchGuard(options, async (events, { tx }) =>')
  })

  test.each([undefined, null, 5, {}])('the guard of an adapter: %o', (guard) => {
    expect(messageOf(() => portOf(guard as never))).toContain('createGuard()')
  })
})

// Red before: it was silently overwritten.
test("createBatchGuard refuses transaction: 'each', and takes 'batch'", () => {
  const options = { consumer: 'billing', inbox: memoryInbox() }
  const make = (transaction: string) => () =>
    createBatchGuard({ ...options, transaction } as never, nothing)
  expect(messageOf(make('each'))).toContain("no `transaction: 'each'` for `createBatchGuard`")
  expect(messageOf(make('both'))).toContain("'each', 'batch'")
  expect(make('batch')()).toMatchObject({ consumer: 'billing' })
})
