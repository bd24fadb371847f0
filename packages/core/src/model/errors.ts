import { types } from '../node.ts'

/** The codes of all errors that onceward throws. A closed list. */
export const ERROR_CODES = [
  'ONCEWARD_RETRYABLE',
  'ONCEWARD_FATAL',
  'ONCEWARD_INVALID_PAYLOAD',
  'ONCEWARD_MISSING_KEY',
  'ONCEWARD_UNKNOWN_TYPE',
  'ONCEWARD_CONFLICT',
  'ONCEWARD_IN_PROGRESS',
  'ONCEWARD_LEASE_LOST',
  'ONCEWARD_DEADLINE_EXCEEDED',
  'ONCEWARD_COMMIT_UNKNOWN',
  'ONCEWARD_STORE_UNAVAILABLE',
  'ONCEWARD_PAUSED',
  'ONCEWARD_CONFIGURATION',
  'ONCEWARD_ENVELOPE',
  'ONCEWARD_ANSWER',
  'ONCEWARD_OUTBOX',
  'ONCEWARD_SEAL',
] as const

export type ErrorCode = (typeof ERROR_CODES)[number]

/** `Symbol.for`, so that two copies of this package in one process know each other's errors. */
const BRAND = Symbol.for('onceward.error')

/** Base class of all errors of onceward. Use `code` to distinguish them. */
export abstract class OncewardError extends Error {
  abstract readonly code: ErrorCode

  constructor(message: string, options?: ErrorOptions) {
    super(message, options)
    // Each class states its name, because a minifier renames classes.
    this.name = new.target.name
    Object.defineProperty(this, BRAND, { value: true })
  }

  /** Whether `value` is an error of onceward, from this copy of the package or another. */
  static is(value: unknown): value is OncewardError {
    return typeof value === 'object' && value !== null && BRAND in value
  }
}

/** Thrown by handlers to retry later. All other errors of a handler are retryable too, unless they are fatal. */
export class RetryableError extends OncewardError {
  static override readonly name: string = 'RetryableError'
  readonly code = 'ONCEWARD_RETRYABLE'
  /** Milliseconds until the next attempt, instead of the back-off. Bounded by `retry.maxMs`. */
  readonly afterMs: number | undefined

  constructor(
    message: string,
    options?: {
      readonly cause?: unknown
      readonly afterMs?: number | undefined
    },
  ) {
    super(message, options)
    this.afterMs = options?.afterMs
  }
}

/** Thrown by handlers for an event that can never succeed. The event is dead-lettered immediately. */
export class FatalError extends OncewardError {
  static override readonly name: string = 'FatalError'
  readonly code = 'ONCEWARD_FATAL'
}

/** The message cannot be decoded, does not fit the schema, or has an invalid key. */
export class InvalidPayloadError extends OncewardError {
  static override readonly name: string = 'InvalidPayloadError'
  readonly code = 'ONCEWARD_INVALID_PAYLOAD'
}

/** No resolver found an event key, or the required tenant is missing. */
export class MissingKeyError extends OncewardError {
  static override readonly name: string = 'MissingKeyError'
  readonly code = 'ONCEWARD_MISSING_KEY'
}

/** A guard with `on` has no handler for the type of the message. */
export class UnknownTypeError extends OncewardError {
  static override readonly name: string = 'UnknownTypeError'
  readonly code = 'ONCEWARD_UNKNOWN_TYPE'
}

/** The same event key came with another fingerprint. */
export class ConflictError extends OncewardError {
  static override readonly name: string = 'ConflictError'
  readonly code = 'ONCEWARD_CONFLICT'
}

/** Thrown by `once`: the key has no answer yet. */
export class InProgressError extends OncewardError {
  static override readonly name: string = 'InProgressError'
  readonly code = 'ONCEWARD_IN_PROGRESS'
  /** Milliseconds until another call may find the answer. */
  readonly afterMs: number

  constructor(message: string, options: ErrorOptions & { readonly afterMs: number }) {
    super(message, options)
    this.afterMs = options.afterMs
  }
}

/** Names a cause of a conflict that lies in the body. Undefined: none is known. */
export const roundedHint = (path: string | undefined): string =>
  path === undefined
    ? ''
    : ` The body holds an integer that JavaScript rounds, at \`${path}\`: two keys may have become one. Set \`decode: losslessJson()\`.`

/** Another owner took the claim over, or may have done so. */
export class LeaseLostError extends OncewardError {
  static override readonly name: string = 'LeaseLostError'
  readonly code = 'ONCEWARD_LEASE_LOST'
}

/** The handler ran past `deadlineMs`. Its transaction, if there is one, was rolled back, and its handle refuses. */
export class DeadlineExceededError extends OncewardError {
  static override readonly name: string = 'DeadlineExceededError'
  readonly code = 'ONCEWARD_DEADLINE_EXCEEDED'
}

/** COMMIT was sent, and no answer came. The effect may or may not be committed: the redelivery decides. */
export class CommitUnknownError extends OncewardError {
  static override readonly name: string = 'CommitUnknownError'
  readonly code = 'ONCEWARD_COMMIT_UNKNOWN'
}

/** A store could not be reached or did not answer in time. Deliveries are deferred, and nothing is lost. */
export class StoreUnavailableError extends OncewardError {
  static override readonly name: string = 'StoreUnavailableError'
  readonly code = 'ONCEWARD_STORE_UNAVAILABLE'
}

/** The consumer is paused. Nothing ran, and nothing is lost: messages stay with their broker. */
export class ConsumerPausedError extends OncewardError {
  static override readonly name: string = 'ConsumerPausedError'
  readonly code = 'ONCEWARD_PAUSED'
}

/**
 * The options or the environment are invalid. Thrown at the start; while a guard runs, health names it, for example when its
 * tables have changed.
 */
export class ConfigurationError extends OncewardError {
  static override readonly name: string = 'ConfigurationError'
  readonly code = 'ONCEWARD_CONFIGURATION'
}

/**
 * Whether an error of a store concerns every event: the store is down, its tables or rights do not fit, or nothing can be
 * sealed. Only then a consumer pauses.
 */
export function concernsStore(error: unknown): boolean {
  return (
    error instanceof StoreUnavailableError ||
    error instanceof ConfigurationError ||
    error instanceof SealError
  )
}

/** The envelope of a stored delivery is damaged, or was written by a later version of onceward. */
export class EnvelopeError extends OncewardError {
  static override readonly name: string = 'EnvelopeError'
  readonly code = 'ONCEWARD_ENVELOPE'
}

/** A message cannot be sent as it is, or its run is over. The run of the handler fails and is retried. */
export class OutboxError extends OncewardError {
  static override readonly name: string = 'OutboxError'
  readonly code = 'ONCEWARD_OUTBOX'
}

/**
 * The option `seal` could not seal a value that is to be stored, or could not open a stored one. Nothing is stored in
 * plain, and nothing is lost: what cannot be sealed is tried again, and what cannot be opened stays as it is.
 */
export class SealError extends OncewardError {
  static override readonly name: string = 'SealError'
  readonly code = 'ONCEWARD_SEAL'
}

/** The class of each code. Classes of other packages and of users are not here: only their own instances are theirs. */
const CLASSES: ReadonlyMap<unknown, unknown> = new Map<ErrorCode, unknown>([
  ['ONCEWARD_RETRYABLE', RetryableError],
  ['ONCEWARD_FATAL', FatalError],
  ['ONCEWARD_INVALID_PAYLOAD', InvalidPayloadError],
  ['ONCEWARD_MISSING_KEY', MissingKeyError],
  ['ONCEWARD_UNKNOWN_TYPE', UnknownTypeError],
  ['ONCEWARD_CONFLICT', ConflictError],
  ['ONCEWARD_IN_PROGRESS', InProgressError],
  ['ONCEWARD_LEASE_LOST', LeaseLostError],
  ['ONCEWARD_DEADLINE_EXCEEDED', DeadlineExceededError],
  ['ONCEWARD_COMMIT_UNKNOWN', CommitUnknownError],
  ['ONCEWARD_STORE_UNAVAILABLE', StoreUnavailableError],
  ['ONCEWARD_PAUSED', ConsumerPausedError],
  ['ONCEWARD_CONFIGURATION', ConfigurationError],
  ['ONCEWARD_ENVELOPE', EnvelopeError],
  ['ONCEWARD_OUTBOX', OutboxError],
  ['ONCEWARD_SEAL', SealError],
])

/** For `instanceof`: an error of another copy of this package is an instance of the class that has its code. */
function isInstance(this: unknown, value: unknown): boolean {
  if (Function.prototype[Symbol.hasInstance].call(this, value)) return true
  if (!OncewardError.is(value)) return false
  return this === OncewardError || CLASSES.get(value.code) === this
}

Object.defineProperty(OncewardError, Symbol.hasInstance, { value: isInstance })

/** An error as log lines show it, in the shape of pino's `err` serializer. */
export interface DescribedError {
  readonly type: string
  readonly name: string
  readonly message: string
  readonly code?: string | number | undefined
  readonly stack?: string | undefined
  readonly cause?: DescribedError | undefined
  /** The errors of an `AggregateError`. */
  readonly aggregateErrors?: readonly DescribedError[] | undefined
}

const LONGEST_MESSAGE = 2_000
const LONGEST_STACK = 8_000
const LONGEST_NAME = 100
const MOST_CAUSES = 5
const MOST_AGGREGATED = 5

/**
 * The part of an error that logs may contain: name, message, code, stack and causes, all bounded. Other properties are
 * left out, because drivers keep statements, parameters and passwords in them. Never throws.
 */
export function describeError(error: unknown): DescribedError {
  try {
    return described(error, 0)
  } catch {
    return { type: typeof error, name: typeof error, message: UNDESCRIBABLE }
  }
}

function described(error: unknown, depth: number): DescribedError {
  if (!isError(error)) {
    const type = typeof error
    return { type, name: type, message: String(error).slice(0, 200) }
  }
  const name = String(error.name).slice(0, LONGEST_NAME)
  const stack: unknown = error.stack
  return {
    type: name,
    name,
    message: cut(String(error.message), LONGEST_MESSAGE),
    ...codeOf(error),
    ...(typeof stack === 'string' ? { stack: cut(stack, LONGEST_STACK) } : {}),
    ...(depth === MOST_CAUSES ? {} : causesOf(error, depth + 1)),
  }
}

function codeOf(error: Error): Pick<DescribedError, 'code'> {
  const code: unknown = Reflect.get(error, 'code')
  if (typeof code === 'number') return { code }
  return typeof code === 'string' ? { code: code.slice(0, LONGEST_NAME) } : {}
}

function causesOf(error: Error, depth: number): Pick<DescribedError, 'cause' | 'aggregateErrors'> {
  const aggregated =
    isAggregateError(error) && error.errors.length > 0
      ? error.errors.slice(0, MOST_AGGREGATED).map((each) => described(each, MOST_CAUSES))
      : undefined
  return {
    ...(error.cause === undefined ? {} : { cause: described(error.cause, depth) }),
    ...(aggregated === undefined ? {} : { aggregateErrors: aggregated }),
  }
}

const cut = (text: string, most: number): string =>
  text.length > most ? `${text.slice(0, most).toWellFormed()}…` : text

const UNDESCRIBABLE =
  'A value was thrown that cannot be read: reading it throws. Throw an Error instead.'

/**
 * The thrown value, or an error in its place if it cannot be described. Called where a user's function throws, so rules,
 * stores and logs may read what they get.
 */
export function toReadableError(thrown: unknown): unknown {
  return describeError(thrown).message === UNDESCRIBABLE ? new Error(UNDESCRIBABLE) : thrown
}

const UNRUN =
  'The handler returned a function, a generator or a query that was not executed, and its effects were not committed. Run ' +
  'it in the handler: `async (…, { tx }) => { await … }`.'

/**
 * The failure of a handler that returned an effect which has not happened. For handlers whose results are ignored:
 * nothing else would tell.
 */
export function unrunError(returned: unknown): Error | undefined {
  const { next, execute } = Object(returned)
  const isUnrun = [returned, next, execute].some((each) => typeof each === 'function')
  return isUnrun ? new RetryableError(UNRUN) : undefined
}

/** PostgreSQL rolls back a transaction in which a statement failed, even if the handler ignores the error. */
export const SWALLOWED_STATEMENT: string =
  'A statement of the handler failed and the handler ignored the error, so PostgreSQL rolled the transaction back. ' +
  'Let the error leave the handler, or use a savepoint.'

// Jest and `node:vm` run code in a realm of its own: its classes are others, so `instanceof` says no to its errors. What
// Node itself throws is of the main realm, and a test runner may load one package here and another one there.

/** Whether the value is an error, of this realm or another. A plain object with a message is not an error. */
export function isError(value: unknown): value is Error {
  return value instanceof Error || types.isNativeError(value)
}

/**
 * Whether the value is an `AggregateError`, of this realm or another, whose `errors` can be read. Other libraries have
 * errors of that name without them.
 */
export function isAggregateError(value: unknown): value is AggregateError {
  const isOne =
    value instanceof AggregateError ||
    (types.isNativeError(value) && value.name === 'AggregateError')
  // Read of every error: stores read it too, so one that throws is found here, where errors are described.
  return Array.isArray(Object(value).errors) && isOne
}

/** Most errors of an `AggregateError` that are named: it may hold any number of them, and also itself. */
const MOST_ERRORS = 100

/** What an error says, for texts that people read. An error without a message is named by what it holds, or by its name. */
export function messageOf(error: unknown): string {
  if (!isError(error)) return describeError(error).message
  // Connecting to a host with several addresses, such as localhost, fails with an AggregateError without a message.
  if (error.message !== '') return error.message
  // Timeouts of node-redis are named by their class alone.
  if (!isAggregateError(error)) return String(error.constructor.name)
  // The members of a member are left out, because it may be the error itself.
  const messages = error.errors
    .slice(0, MOST_ERRORS)
    .map((each) => (isAggregateError(each) ? each.message || each.name : messageOf(each)))
  return messages.join(', ')
}
