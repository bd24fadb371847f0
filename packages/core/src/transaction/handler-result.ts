import { describeError, FatalError, RetryableError } from '../model/errors.ts'

/** Maximum size of a result, bytes of JSON. Larger results belong in a table of your own. */
export const RESULT_LIMIT_BYTES: number = 64 * 1024
/** Maximum depth of a result: far below where the stack of JavaScript or PostgreSQL ends, which no code can rely on. */
const RESULT_LIMIT_LEVELS = 1_000
const NOT_COMMITTED = 'its effects were not committed'

/**
 * The JSON text of what a handler returned.
 *
 * @throws {@link RetryableError} before the commit, if the value is not JSON or too large. The error is retryable
 * because returning the driver's result is a defect of the code. A new version of the code can run the event.
 */
export function toResultText(value: unknown): string {
  assertJson(value, '$', new Set())
  const text = JSON.stringify(value)
  const bytes = Buffer.byteLength(text)
  if (bytes > RESULT_LIMIT_BYTES) {
    throw notStorable(`is ${bytes} bytes of JSON, more than ${RESULT_LIMIT_BYTES}`)
  }
  return text
}

/**
 * Like {@link toResultText}, for a handler without a transaction. Its effect has happened, so the event must not run
 * again, and an operator who read that nothing was committed would replay it.
 *
 * @throws {@link FatalError}
 */
export function assertStorable(value: unknown): void {
  try {
    if (value !== undefined) toResultText(value)
  } catch (error) {
    const { message } = describeError(error)
    throw new FatalError(message.replace(NOT_COMMITTED, 'its effects may have happened'))
  }
}

function assertJson(value: unknown, path: string, above: Set<object>): void {
  if (value === null || typeof value === 'boolean' || typeof value === 'string') return
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) throw notStorable(`has a number that JSON cannot store at ${path}`)
    return
  }
  if (typeof value !== 'object') throw notStorable(`has a ${typeof value} at ${path}`)
  if (above.has(value)) throw notStorable(`refers to itself at ${path}`)
  if (above.size === RESULT_LIMIT_LEVELS) {
    throw notStorable(`nests deeper than ${RESULT_LIMIT_LEVELS} levels`)
  }
  above.add(value)
  assertPlain(value, path, above)
  above.delete(value)
}

function assertPlain(value: object, path: string, above: Set<object>): void {
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) assertJson(item, `${path}[${index}]`, above)
    return
  }
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== Object.prototype && prototype !== null) {
    throw notStorable(`has an object that is not plain at ${path}`)
  }
  for (const [name, item] of Object.entries(value)) {
    if (item !== undefined) assertJson(item, `${path}.${name}`, above)
  }
}

function notStorable(why: string): RetryableError {
  return new RetryableError(
    `The handler's return value ${why}, and ${NOT_COMMITTED}. Return plain JSON of at most ` +
      `${RESULT_LIMIT_BYTES} bytes, or nothing: \`async (event) => { await … }\` instead of \`async (event) => …\`.`,
  )
}
