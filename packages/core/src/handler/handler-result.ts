import type { Json } from '../model/brands.ts'
import { describeError, FatalError, RetryableError, unrunError } from '../model/errors.ts'
import type { InFlightEvent } from '../model/in-flight-event.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import { toJsonText } from '../support/json-text.ts'
import { isSealedResult, SEALED_RESULT } from '../support/sealed-result.ts'

/** Maximum size of a result, bytes of JSON. Larger results belong in a table of your own. */
export const RESULT_LIMIT_BYTES: number = 64 * 1024
/** Maximum depth of a result: far below where the stack of JavaScript or PostgreSQL ends, which no code can rely on. */
const RESULT_LIMIT_LEVELS = 1_000
const NOT_COMMITTED = 'its effects were not committed'
const RESERVED = `has only the field "${SEALED_RESULT}", by which onceward knows sealed results`

/** A handler's return value that is stored. */
export interface StorableResult {
  readonly value: Json
  readonly text: string
}

/**
 * What of a handler's return value is stored, before the commit. Undefined for a value that is not plain JSON, such as
 * the result of a driver, if nobody reads it: one log line says so.
 *
 * @throws {@link RetryableError} if somebody reads a value that is not plain JSON, if the value is too large, or if it is
 * an effect that has not happened. It is retryable because the code is at fault. A new version can run the event.
 */
export function storableResult(
  options: ResolvedOptions,
  { isResultRead }: Pick<InFlightEvent, 'isResultRead'>,
  value: unknown,
): StorableResult | undefined {
  if (value === undefined) return undefined
  const unrun = unrunError(value)
  if (unrun !== undefined) throw unrun
  try {
    return { value: value as Json, text: toResultText(value) }
  } catch (error) {
    const isRead =
      isResultRead === true ||
      options.afterCommit !== undefined ||
      options.callerRetries !== undefined
    if (isRead || !(error instanceof NotPlainError)) throw error
    options.reportOnce('warn', { consumer: options.consumer, why: error.why }, IGNORED)
    return undefined
  }
}

const IGNORED =
  'the handler returned a value that is not plain JSON, which is ignored: return plain JSON if it is to be stored, or nothing'

/**
 * Like {@link storableResult}, for a handler without a transaction. Its effect has happened, so the event must not run
 * again, and an operator who read that nothing was committed would replay it.
 *
 * @throws {@link FatalError}
 */
export function storableAfterEffect(
  ...args: Parameters<typeof storableResult>
): StorableResult | undefined {
  return afterEffect(() => storableResult(...args))
}

/**
 * The same for a result that the user's code gives by name.
 *
 * @throws {@link FatalError} if it is not plain JSON or too large.
 */
export function assertStorable(value: unknown): void {
  afterEffect(() => (value === undefined ? undefined : toResultText(value)))
}

function afterEffect<Value>(check: () => Value): Value {
  try {
    return check()
  } catch (error) {
    const { message } = describeError(error)
    throw new FatalError(message.replace(NOT_COMMITTED, 'its effects may have happened'))
  }
}

/** @throws {@link RetryableError} */
function toResultText(value: unknown): string {
  assertJson(value, '$', new Set())
  if (isSealedResult(value as Json)) throw new RetryableError(refusalText(RESERVED))
  const text = toJsonText(value)
  const bytes = Buffer.byteLength(text)
  if (bytes > RESULT_LIMIT_BYTES) {
    throw new RetryableError(
      refusalText(`is ${bytes} bytes of JSON, more than ${RESULT_LIMIT_BYTES}`),
    )
  }
  return text
}

function assertJson(value: unknown, path: string, above: Set<object>): void {
  if (value === null || ['boolean', 'string', 'bigint'].includes(typeof value)) return
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

class NotPlainError extends RetryableError {
  readonly why: string

  constructor(why: string) {
    super(refusalText(why))
    this.why = why
  }
}

const notStorable = (why: string): NotPlainError => new NotPlainError(why)

const refusalText = (why: string): string =>
  `The handler's return value ${why}, and ${NOT_COMMITTED}. Return plain JSON of at most ` +
  `${RESULT_LIMIT_BYTES} bytes, or nothing: \`async (event) => { await … }\` instead of \`async (event) => …\`.`
