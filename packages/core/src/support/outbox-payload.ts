import { OutboxError } from '../model/errors.ts'
import { toJsonText, withEscapes } from './json-text.ts'

/** Far below where the stack of JavaScript ends. */
const MOST_LEVELS = 1_000

/**
 * The payload of a message as JSON. What JSON would write as `{}` or null without a word is refused.
 *
 * @throws {@link OutboxError} that names the place and shows no payload.
 */
export function payloadJson(payload: unknown): Uint8Array {
  refuseLost(payload, '$', 0)
  try {
    return Buffer.from(withEscapes(toJsonText(payload)))
  } catch (cause) {
    throw new OutboxError('The payload of the message is no JSON: send plain data or bytes.', {
      cause,
    })
  }
}

function refuseLost(value: unknown, path: string, level: number): void {
  if (value === null || ['boolean', 'string', 'bigint'].includes(typeof value)) return
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) throw lost(`the number ${value}`, path)
    return
  }
  if (typeof value !== 'object') throw lost(typeof value, path)
  if (level === MOST_LEVELS) throw lost('something that nests too deeply or holds itself', path)
  const what = Array.isArray(value) ? undefined : lostObject(value)
  if (what !== undefined) throw lost(what, path)
  if (hasMethod(value, 'toJSON')) return
  for (const [name, item] of Object.entries(value)) {
    const isLeftOut = item === undefined && !Array.isArray(value)
    if (!isLeftOut) refuseLost(item, `${path}.${name}`, level + 1)
  }
}

/** What the object is, if JSON does not say what it holds. */
function lostObject(value: object): string | undefined {
  if (hasMethod(value, 'then')) return 'a promise, which is not awaited'
  if (value instanceof Date && Number.isNaN(value.getTime())) return 'an invalid date'
  if (hasMethod(value, 'toJSON')) return undefined
  if (value instanceof Error) return 'an Error'
  if (value instanceof Map || value instanceof Set) return `a ${value.constructor.name}`
  if (ArrayBuffer.isView(value)) return 'bytes'
  const prototype: unknown = Object.getPrototypeOf(value)
  const isPlain = prototype === null || prototype === Object.prototype
  if (isPlain || Object.keys(value).length > 0) return undefined
  // Objects of another realm are plain too.
  const name = String(Reflect.get(Object(value.constructor), 'name'))
  return name === 'Object' ? undefined : `an object of ${name} without fields`
}

const hasMethod = (value: object, name: string): boolean =>
  typeof Reflect.get(value, name) === 'function'

const lost = (what: string, path: string): OutboxError =>
  new OutboxError(
    `The message cannot be sent: its payload has ${what} at ${path}, which JSON would lose. Send plain data, or bytes as the whole payload.`,
  )
