import {
  CommitUnknownError,
  ConfigurationError,
  FatalError,
  InvalidPayloadError,
  LeaseLostError,
  MissingKeyError,
  RetryableError,
  StoreUnavailableError,
} from '@onceward/core'
import type { EndName } from './plan.ts'

/**
 * What follows from an end, when everything before it went well.
 * `done`: the effect is committed. `failed`: it is rolled back, and the attempt counts. `fatal`: the event is dead.
 * `hangs`: the handler does not end, and its deadline passes.
 */
export type EndKind = 'done' | 'failed' | 'fatal' | 'hangs'

export interface End {
  readonly follows: EndKind
  /** `single`: handlers of batches return nothing. */
  readonly of: 'any' | 'single'
  /** Returns or throws as the handler does. */
  readonly make: () => unknown
  /** The value that duplicates get, as JSON. Not compared if undefined. */
  readonly result?: string | undefined
}

const ends: Record<string, End> = { nothing: { follows: 'done', of: 'any', make: () => undefined } }

const throws = (name: string, make: () => unknown, follows: EndKind = 'failed'): void => {
  const thrown = (): never => {
    throw make()
  }
  ends[`throws ${name}`] = { follows, of: 'any', make: thrown }
}
const returns = (name: string, make: () => unknown, follows: EndKind = 'done'): void => {
  ends[`returns ${name}`] = { follows, of: 'single', make }
}
const stores = (name: string, make: () => unknown): void => {
  ends[`returns ${name}`] = { follows: 'done', of: 'single', make, result: JSON.stringify(make()) }
}

/** Half of a character. */
const HALF = String.fromCharCode(0xd800)
const refuse = (): never => {
  throw new Error('reading throws')
}
const TRAPS = [
  'get',
  'has',
  'getPrototypeOf',
  'ownKeys',
  'getOwnPropertyDescriptor',
  'apply',
  'set',
]
const EVERY_TRAP = Object.fromEntries(TRAPS.map((trap) => [trap, refuse]))
const getter = (name: string, target: object = new Error('why')): object =>
  Object.defineProperty(target, name, { get: refuse, enumerable: true })
const revoked = (target: object): object => {
  const { proxy, revoke } = Proxy.revocable(target, {})
  revoke()
  return proxy
}
const cyclic = <Value extends object>(value: Value, name = 'self'): Value =>
  Object.assign(value, { [name]: value })
const deep = (): unknown => {
  let value: unknown = []
  for (let level = 0; level < 100_000; level += 1) value = [value]
  return value
}

throws('an error', () => new Error('why'))
throws('a frozen error', () => Object.freeze(new Error('frozen')))
throws('undefined', () => undefined)
throws('null', () => null)
throws('false', () => false)
throws('a number', () => Number.NaN)
throws('a text', () => 'why')
throws('a text with NUL', () => new Error(`a\0b ${HALF}`))
throws('a symbol', () => Symbol('why'))
throws('a BigInt', () => 5n)
throws('a function', () => refuse)
throws('an object without a prototype', () => Object.create(null))
for (const name of ['message', 'stack', 'name', 'code', 'cause', 'errors', 'afterMs', 'then']) {
  throws(`an error whose ${name} throws`, () => getter(name))
}
throws('an error whose name is an object', () => Object.assign(new Error('why'), { name: {} }))
throws('an object that cannot be text', () => ({ toString: refuse, [Symbol.toPrimitive]: refuse }))
throws('a Proxy', () => new Proxy({}, EVERY_TRAP))
throws('a Proxy of an error', () => new Proxy(new Error('why'), EVERY_TRAP))
throws('a Proxy of a fatal error', () => new Proxy(new FatalError('why'), EVERY_TRAP))
throws('a revoked Proxy', () => revoked({}))
throws('a revoked Proxy of an error', () => revoked(new Error('why')))
throws('an error that causes itself', () => cyclic(new Error('why'), 'cause'))
throws('an aggregate of itself', () => cyclic(new AggregateError([], 'why'), 'errors'))
throws('a megabyte', () => new Error('x'.repeat(1_000_000)))
throws('a promise that rejects', () => {
  const promise = Promise.reject(new Error('inner'))
  promise.catch(() => undefined)
  return promise
})
for (const state of [
  '08006',
  '25006',
  '40001',
  '40P01',
  '22003',
  '23505',
  '57014',
  '57P01',
  '3D000',
]) {
  throws(`an error with code ${state}`, () => Object.assign(new Error('why'), { code: state }))
}
throws('a refused connection', () => Object.assign(new Error('why'), { code: 'ECONNREFUSED' }))
throws('the text of a lost connection', () => new Error('Connection terminated unexpectedly'))
const ODD_DELAYS = [
  Number.NaN,
  -1,
  Number.POSITIVE_INFINITY,
  1e308,
  2 ** 31,
  0,
  0.5,
  '7',
  5n,
  {},
  null,
]
for (const afterMs of ODD_DELAYS) {
  const name = typeof afterMs === 'bigint' ? '5n' : JSON.stringify(afterMs)
  throws(
    `a RetryableError after ${Number.isNaN(afterMs) ? 'NaN' : name}`,
    () => new RetryableError('later', { afterMs: afterMs as number }),
  )
}
throws('a StoreUnavailableError', () => new StoreUnavailableError('mine'))
throws('a CommitUnknownError', () => new CommitUnknownError('mine'))
throws('a LeaseLostError', () => new LeaseLostError('mine'))
throws('a ConfigurationError', () => new ConfigurationError('mine'))
throws('a FatalError', () => new FatalError('never'), 'fatal')
throws('a frozen FatalError', () => Object.freeze(new FatalError('never')), 'fatal')
throws('an InvalidPayloadError', () => new InvalidPayloadError('mine'), 'fatal')
throws('a MissingKeyError', () => new MissingKeyError('mine'), 'fatal')

stores('null', () => null)
stores('false', () => false)
stores('zero', () => 0)
stores('an empty text', () => '')
stores('a text with NUL', () => 'a\0b')
stores('half of a character', () => HALF)
stores('quotes', () => `'"\\$$ ; rollback; --`)
stores('JSON', () => ({ a: [1, { b: null }], c: undefined, __proto__: null }))
stores('60 kB', () => 'x'.repeat(60_000))
returns('a promise of a value', () => Promise.resolve({ a: 1 }))
returns('a Proxy of JSON', () => new Proxy({ a: 1 }, {}))
returns('a frozen object', () => Object.freeze({ a: Object.freeze([1]) }))
// No guard here has an `afterCommit`, so nobody reads a result, and one that is not JSON is left out with a
// warning. A function may be an effect that nobody started, and what throws when it is read is a bug.
returns('a BigInt', () => ({ a: 5n }))
returns('a symbol', () => Symbol('odd'))
returns('a function', () => refuse, 'failed')
returns('NaN', () => [Number.NaN])
returns('a cycle', () => cyclic({}))
returns('a Date', () => new Date(0))
returns('a Map', () => new Map())
returns('bytes', () => Buffer.from('x'))
returns('an object with toJSON', () => ({ toJSON: refuse }))
returns('a list with undefined', () => [1, undefined, 2])
returns('70 kB', () => 'x'.repeat(70_000), 'failed')
returns('a hundred thousand levels', deep)
returns('a getter that throws', () => getter('a', {}), 'failed')
returns('a getter that changes its mind', () => {
  let looks = 0
  return {
    get a() {
      looks += 1
      return looks > 1 ? 5n : 'fine'
    },
  }
})
returns('a Proxy that throws', () => new Proxy({}, EVERY_TRAP), 'failed')
returns('a revoked Proxy', () => revoked({}), 'failed')

type Settle = (value?: unknown) => void
const thenable = (then: (resolve: Settle, reject: Settle) => unknown): object => ({
  then,
})
const answers = (name: string, make: () => unknown, follows: EndKind): void => {
  ends[`answers ${name}`] = { follows, of: 'any', make }
}
answers('a thenable', () => thenable((resolve) => resolve()), 'done')
answers(
  'a thenable that settles twice',
  () =>
    thenable((resolve, reject) => {
      resolve()
      reject(new Error('too late'))
    }),
  'done',
)
answers(
  'a thenable that resolves and throws',
  () =>
    thenable((resolve) => {
      resolve()
      throw new Error('too late')
    }),
  'done',
)
answers(
  'a thenable that fails and resolves',
  () =>
    thenable((resolve, reject) => {
      reject(Object.create(null))
      resolve()
    }),
  'failed',
)
answers('a thenable that throws', () => thenable(refuse), 'failed')
answers('an object whose then throws', () => getter('then', {}), 'failed')
answers(
  'a thenable of a thenable',
  () => thenable((resolve) => resolve(thenable((again) => again()))),
  'done',
)
answers('a thenable that never settles', () => thenable(() => undefined), 'hangs')
answers('a promise that never settles', () => new Promise(() => undefined), 'hangs')

export const ENDS: Readonly<Record<EndName, End>> = ends
