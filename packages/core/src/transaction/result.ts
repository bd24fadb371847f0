import { FatalError } from '../model/errors.ts'

/** Bytes of JSON; larger results belong into a table of the user's. */
export const RESULT_LIMIT_BYTES: number = 64 * 1024

/**
 * The JSON text of a handler's return value, or undefined when there is none.
 *
 * @throws {@link FatalError} before the commit, when the value is not JSON or too large: it would be so each time.
 */
export function toResultText(value: unknown): string | undefined {
  if (value === undefined) return undefined
  assertJson(value, '$', new Set())
  const text = JSON.stringify(value)
  const bytes = Buffer.byteLength(text)
  if (bytes > RESULT_LIMIT_BYTES) {
    throw notStorable(`is ${bytes} bytes of JSON, more than ${RESULT_LIMIT_BYTES}`)
  }
  return text
}

function assertJson(value: unknown, path: string, above: Set<object>): void {
  if (value === null || typeof value === 'boolean' || typeof value === 'string') return
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) throw notStorable(`has a number JSON does not know at ${path}`)
    return
  }
  if (typeof value !== 'object') throw notStorable(`has a ${typeof value} at ${path}`)
  if (above.has(value)) throw notStorable(`refers to itself at ${path}`)
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

function notStorable(why: string): FatalError {
  return new FatalError(
    `The handler's return value ${why}. It was rolled back: return plain JSON of at most ` +
      `${RESULT_LIMIT_BYTES} bytes, or nothing.`,
  )
}
