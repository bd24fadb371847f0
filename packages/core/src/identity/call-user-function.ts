import { isThenable, type MaybeAsync } from '../concurrency/maybe-async.ts'
import type { EventKey } from '../model/brands.ts'
import {
  describeError,
  type ErrorCode,
  InvalidPayloadError,
  isError,
  OncewardError,
  RetryableError,
  toReadableError,
} from '../model/errors.ts'
import { WrongAnswerError } from '../options/wrong-answer.ts'

/** What is known about a message whose identification ends early. */
export interface Found {
  key?: EventKey | undefined
  /** The user's function that is running. */
  calling?: string | undefined
}

/**
 * Calls a user's function, and names the function if it throws. Awaits its result even where the type allows no promise:
 * a promise taken for a value would skip every message, or make all payloads equal.
 */
export function callUserFunction<Value>(
  found: Found,
  name: string,
  call: () => Value,
): MaybeAsync<Awaited<Value>> {
  found.calling = name
  try {
    const value = call()
    if (isThenable(value)) return settled(found, name, value)
    found.calling = undefined
    return value as Awaited<Value>
  } catch (thrown) {
    throw blamed(name, thrown)
  }
}

async function settled<Value>(found: Found, name: string, value: Value): Promise<Awaited<Value>> {
  try {
    const settledValue = await value
    found.calling = undefined
    return settledValue
  } catch (thrown) {
    throw blamed(name, thrown)
  }
}

/**
 * A function of the user threw while it read a message. That says nothing about the message: a registry may be down, an
 * object may be late. So the message is read again.
 */
export class ReadFailedError extends RetryableError {
  static override readonly name: string = 'RetryableError'
}

function blamed(name: string, raw: unknown): unknown {
  const thrown = toReadableError(raw)
  if (thrown instanceof WrongAnswerError || isVerdict(thrown)) return thrown
  return isSyntaxError(thrown)
    ? unreadable(`\`${name}\``, thrown)
    : new ReadFailedError(whatThrew(`\`${name}\``, thrown), { cause: thrown })
}

/** Errors by which a function of the user says what is to become of the message. */
const VERDICTS: readonly ErrorCode[] = [
  'ONCEWARD_INVALID_PAYLOAD',
  'ONCEWARD_MISSING_KEY',
  'ONCEWARD_FATAL',
  'ONCEWARD_RETRYABLE',
]

const isVerdict = (thrown: unknown): thrown is OncewardError =>
  OncewardError.is(thrown) && VERDICTS.includes(thrown.code)

/** What `JSON.parse` and most parsers throw for a message that they cannot read, now or later. */
const isSyntaxError = (thrown: unknown): boolean => isError(thrown) && thrown.name === 'SyntaxError'

export function unreadable(name: string, thrown: unknown): InvalidPayloadError {
  return new InvalidPayloadError(whatThrew(name, thrown), { cause: thrown })
}

function whatThrew(name: string, thrown: unknown): string {
  const { name: type, message } = describeError(thrown)
  return `${name} threw ${isError(thrown) ? `${type}: ${message}` : typeof thrown}`
}
