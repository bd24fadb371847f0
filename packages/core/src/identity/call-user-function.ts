import { isThenable, type MaybeAsync } from '../concurrency/maybe-async.ts'
import type { EventKey } from '../model/brands.ts'
import {
  describeError,
  InvalidPayloadError,
  isError,
  MissingKeyError,
  OncewardError,
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

function blamed(name: string, raw: unknown): unknown {
  const thrown = toReadableError(raw)
  if (thrown instanceof InvalidPayloadError || thrown instanceof MissingKeyError) return thrown
  return isRetryable(thrown) ? thrown : threw(`\`${name}\``, thrown)
}

export function isRetryable(thrown: unknown): boolean {
  if (thrown instanceof WrongAnswerError) return true
  return OncewardError.is(thrown) && thrown.code === 'ONCEWARD_RETRYABLE'
}

export function threw(name: string, thrown: unknown): InvalidPayloadError {
  const { name: type, message } = describeError(thrown)
  const what = isError(thrown) ? `${type}: ${message}` : typeof thrown
  return new InvalidPayloadError(`${name} threw ${what}`, { cause: thrown })
}
