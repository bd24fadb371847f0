import { types } from 'node:util'

// Jest and `node:vm` run code in a realm of its own: its classes are others, so `instanceof` says no to its errors. What
// Node itself throws is of the main realm, and a test runner may load one package here and another one there.

/** Whether the value is an error, of this realm or another. A plain object with a message is none. */
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
  return isOne && Array.isArray(Reflect.get(value, 'errors'))
}
