/** Every code of every error that onceward throws. A closed list. */
export const ERROR_CODES = [
  'ONCEWARD_RETRYABLE',
  'ONCEWARD_FATAL',
  'ONCEWARD_INVALID_PAYLOAD',
  'ONCEWARD_MISSING_KEY',
  'ONCEWARD_CONFLICT',
  'ONCEWARD_LEASE_LOST',
  'ONCEWARD_DEADLINE_EXCEEDED',
  'ONCEWARD_COMMIT_UNKNOWN',
  'ONCEWARD_STORE_UNAVAILABLE',
  'ONCEWARD_CONFIGURATION',
] as const

export type ErrorCode = (typeof ERROR_CODES)[number]

/** `Symbol.for`, so that two copies of this package in one process know each other's errors. */
const BRAND = Symbol.for('onceward.error')

/** Root of all errors of onceward. Tell them apart by `code`. */
export abstract class OncewardError extends Error {
  abstract readonly code: ErrorCode

  constructor(message: string, options?: ErrorOptions) {
    super(message, options)
    // Each class states its name, because a minifier renames classes.
    this.name = new.target.name
    Object.defineProperty(this, BRAND, { value: true })
  }

  /** Whether `value` is an error of onceward, of this copy of the package or of another. */
  static is(value: unknown): value is OncewardError {
    try {
      return typeof value === 'object' && value !== null && BRAND in value
    } catch {
      // A Proxy may throw at any look.
      return false
    }
  }
}

/** Thrown by handlers: try again later. Anything else a handler throws is retryable too. */
export class RetryableError extends OncewardError {
  static override readonly name: string = 'RetryableError'
  readonly code = 'ONCEWARD_RETRYABLE'
  /** Milliseconds until the next attempt, instead of the backoff. Still bounded by `retry.maxMs`. */
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

/** Thrown by handlers: this event can never succeed; dead letter now. */
export class FatalError extends OncewardError {
  static override readonly name: string = 'FatalError'
  readonly code = 'ONCEWARD_FATAL'
}

/** The message cannot be decoded, does not fit the schema, or has a key that is none. */
export class InvalidPayloadError extends OncewardError {
  static override readonly name: string = 'InvalidPayloadError'
  readonly code = 'ONCEWARD_INVALID_PAYLOAD'
}

/** No resolver found an event key (or the tenant was asked for and is missing). */
export class MissingKeyError extends OncewardError {
  static override readonly name: string = 'MissingKeyError'
  readonly code = 'ONCEWARD_MISSING_KEY'
}

/** The same event key came with another fingerprint. */
export class ConflictError extends OncewardError {
  static override readonly name: string = 'ConflictError'
  readonly code = 'ONCEWARD_CONFLICT'
}

/** Another owner took the claim over, or may have. */
export class LeaseLostError extends OncewardError {
  static override readonly name: string = 'LeaseLostError'
  readonly code = 'ONCEWARD_LEASE_LOST'
}

/** The handler ran past `deadlineMs`; its transaction was rolled back and its handle refuses. */
export class DeadlineExceededError extends OncewardError {
  static override readonly name: string = 'DeadlineExceededError'
  readonly code = 'ONCEWARD_DEADLINE_EXCEEDED'
}

/** COMMIT was sent and no answer came: the effect may be committed or not. The redelivery tells. */
export class CommitUnknownError extends OncewardError {
  static override readonly name: string = 'CommitUnknownError'
  readonly code = 'ONCEWARD_COMMIT_UNKNOWN'
}

/** A store could not be reached or did not answer in time. Nothing is lost; deliveries are deferred. */
export class StoreUnavailableError extends OncewardError {
  static override readonly name: string = 'StoreUnavailableError'
  readonly code = 'ONCEWARD_STORE_UNAVAILABLE'
}

/** Options or surroundings that cannot work. Thrown at start only. */
export class ConfigurationError extends OncewardError {
  static override readonly name: string = 'ConfigurationError'
  readonly code = 'ONCEWARD_CONFIGURATION'
}

/** What logs may say of an error: no cause, no payload, no driver detail. Total: never throws. */
export function describeError(error: unknown): { name: string; message: string; code?: unknown } {
  try {
    if (!(error instanceof Error)) {
      return { name: typeof error, message: String(error).slice(0, 200) }
    }
    const code: unknown = Reflect.get(error, 'code')
    const described = { name: String(error.name), message: String(error.message) }
    return code === undefined ? described : { ...described, code }
  } catch {
    return { name: typeof error, message: UNDESCRIBABLE }
  }
}

const UNDESCRIBABLE = 'A value was thrown that cannot be described: it throws when it is read.'

/**
 * The thrown value, if reading it is safe; else an error in its place. Everything behind the call of a user's function
 * (rules, stores, logs, settlements) may then read what was thrown.
 */
export function toReadableError(thrown: unknown): unknown {
  try {
    if (typeof thrown !== 'object' || thrown === null) {
      String(thrown)
      return thrown
    }
    if (!(thrown instanceof Error)) {
      String(thrown)
      void ('code' in thrown && thrown.code)
      return thrown
    }
    const { cause, message, name, stack } = thrown
    const isText = [message, name, stack ?? ''].every((text) => typeof text === 'string')
    void (Reflect.get(thrown, 'code') === cause)
    return isText ? thrown : new Error(UNDESCRIBABLE)
  } catch {
    return new Error(UNDESCRIBABLE)
  }
}

/** PostgreSQL rolls back a transaction in which a statement failed, even if the handler ignores the error. */
export const SWALLOWED_STATEMENT: string =
  'A statement of the handler failed and the handler ignored the error, so PostgreSQL rolled the transaction back. ' +
  'Let the error leave the handler, or use a savepoint.'
