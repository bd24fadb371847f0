import { shown } from '../support/shown.ts'
import { adviceFor, hasMethod, nameProblems } from '../support/wrong-arguments.ts'

/** What a value must be, and the words for it. */
export interface Rule {
  readonly expected: string
  readonly accepts: (value: unknown) => boolean
  /** How to fix it, or what the number means. */
  readonly remedy?: string | undefined
  /** How to write what a wrong value shows that the user meant. */
  readonly instead?: ((value: unknown) => string | undefined) | undefined
  readonly required?: true | undefined
}

export const integer = (from: number, to: number, remedy: string): Rule => ({
  expected: `an integer from ${from} to ${to}`,
  accepts: (value) => Number.isInteger(value) && Number(value) >= from && Number(value) <= to,
  remedy,
})

export const milliseconds = (from: number, to: number): Rule =>
  integer(from, to, 'Units are milliseconds.')

export const oneOf = (...values: readonly string[]): Rule => ({
  expected: `one of ${values.map((value) => `'${value}'`).join(', ')}`,
  accepts: (value) => typeof value === 'string' && values.includes(value),
})

const isFunction = (value: unknown): boolean => typeof value === 'function'
export const aFunction: Rule = { expected: 'a function', accepts: isFunction }

export const aBoolean: Rule = {
  expected: 'true or false',
  accepts: (value) => typeof value === 'boolean',
}

export const either = (rule: Rule, other: Rule): Rule => ({
  expected: `${rule.expected}, or ${other.expected}`,
  accepts: (value) => rule.accepts(value) || other.accepts(value),
})

export const objectWith = (expected: string, ...methods: readonly string[]): Rule => ({
  expected,
  accepts: (value) => methods.every((method) => hasMethod(value, method)),
})

/** The option `groupConcurrency`. */
export const groups: Rule = {
  expected: '`{ by, max }`, a function and an integer from 1 to 1000',
  accepts: (value) => {
    const { by, max, ...others } = Object(value) as Partial<Readonly<Record<string, unknown>>>
    const isNumber = Number.isInteger(max) && Number(max) >= 1 && Number(max) <= 1_000
    return isFunction(by) && isNumber && Object.keys(others).length === 0
  },
  remedy: 'Write `groupConcurrency: { by: ({ payload }) => payload.tenant, max: 2 }`.',
}

/** The option `seal`. */
export const hooks: Rule = {
  expected: '`{ seal, open }`, two functions',
  accepts: (value) => hasMethod(value, 'seal') && hasMethod(value, 'open'),
  remedy: 'Each gets bytes and `{ consumer, field }` and answers bytes: docs/sealing.md has one.',
}

/** A store of the guard, which users confuse with its client and its URL. */
export const store = (expected: string, ...methods: readonly string[]): Rule => ({
  ...objectWith(expected, ...methods),
  instead: adviceFor,
})

/**
 * An inbox is opened before the first message: it registers the consumer, counts reads, keeps refused messages and parked
 * events, and is swept, all of that without an event. Events of several inboxes share no transaction either.
 */
export const inbox: Rule = {
  ...store('an inbox', 'open'),
  instead: (value) =>
    isFunction(value)
      ? 'Call the function first. A guard has one inbox, which is opened before any message is read: for a database per tenant, make a guard per tenant, each with its own inbox and queue.'
      : adviceFor(value),
}

export const resolvers: Rule = {
  expected: 'a resolver or a list of at least one resolver',
  accepts: (value) =>
    Array.isArray(value) ? value.length > 0 && value.every(isFunction) : isFunction(value),
  remedy: 'A payload field is `({ payload }) => payload.orderId`.',
}

export const standardSchema: Rule = {
  expected: 'a Standard Schema',
  accepts: (value) =>
    value !== null &&
    (typeof value === 'object' || typeof value === 'function') &&
    isFunction(Reflect.get(Object(Reflect.get(value, '~standard')), 'validate')),
  remedy: 'zod (3.24 or newer), valibot (1.0 or newer) and arktype schemas are.',
}

export const consumerName: Rule = {
  expected: '1–128 of the characters A–Z a–z 0–9 . _ : -',
  accepts: (value) => typeof value === 'string' && /^[A-Za-z0-9._:-]{1,128}$/.test(value),
  remedy: 'It is the name of the logical consumer and part of the identity of every event.',
  required: true,
}

/**
 * Returns every broken rule as a sentence, for each option:
 * ``Expected `leaseMs` to be an integer from 1000 to 43200000, got `30` (number). Units are milliseconds.``
 */
export function brokenRules(
  caller: string,
  rules: Readonly<Record<string, Rule>>,
  options: object,
): readonly string[] {
  const { retry, ...top } = options as Readonly<Record<string, unknown>>
  const isGroup = typeof retry === 'object' && retry !== null && !Array.isArray(retry)
  const values = new Map(Object.entries(top))
  for (const [name, value] of isGroup ? Object.entries(retry) : []) values.set(RETRY + name, value)
  const problems = Object.entries(rules).flatMap(([name, rule]) => {
    const value = values.get(name)
    const isFine = value === undefined ? rule.required !== true : rule.accepts(value)
    return isFine ? [] : [sentence(name, rule, value)]
  })
  if (retry !== undefined && !isGroup) {
    problems.push('Expected `retry` to be an object with `attempts`, `baseMs` and `maxMs`.')
  }
  const names = Object.keys(rules)
  const nested = names.filter((name) => name.startsWith(RETRY))
  const known = names.filter((name) => !name.startsWith(RETRY))
  const inRetry = nested.map((name) => name.slice(RETRY.length))
  return [
    ...problems,
    ...nameProblems(caller, options, [...known, 'retry']),
    ...(isGroup ? nameProblems(caller, retry, inRetry, RETRY) : []),
  ]
}

const RETRY = 'retry.'

function sentence(name: string, { expected, instead, remedy }: Rule, value: unknown): string {
  const got = value === undefined ? 'nothing' : `\`${toText(value)}\` (${typeOf(value)})`
  const problem = `Expected \`${name}\` to be ${expected}, got ${got}.`
  const advice = instead?.(value) ?? remedy
  return advice === undefined ? problem : `${problem} ${advice}`
}

/** Options may hold clients with credentials, so objects are named only by their type. */
function toText(value: unknown): string {
  if (typeof value === 'function') return 'function'
  if (Array.isArray(value)) return `[${value.length} values]`
  if (value !== null && typeof value === 'object') return '{…}'
  return shown(String(value))
}

const typeOf = (value: unknown): string =>
  value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value
