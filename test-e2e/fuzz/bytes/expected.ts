import type { Delivery } from '@onceward/core'
import { KEY_HEADER } from './messages.ts'

/** What a message says by itself, read without any code of onceward. */
export type Reading =
  | { readonly kind: 'event'; readonly key: string; readonly text: string }
  | { readonly kind: 'refused'; readonly reason: 'invalid-payload' | 'missing-event-key' }

const utf8 = new TextDecoder('utf-8', { fatal: true })

const refused = (reason: 'invalid-payload' | 'missing-event-key'): Reading => ({
  kind: 'refused',
  reason,
})

export function readingOf({ body, headers }: Delivery): Reading {
  const text = textOf(body)
  if (text === undefined) return refused('invalid-payload')
  const payload: unknown = JSON.parse(text)
  const inBody: unknown = keyIn(payload)
  const value = headers[KEY_HEADER] ?? inBody ?? undefined
  if (value === undefined) return refused('missing-event-key')
  const key = typeof value === 'number' && Number.isSafeInteger(value) ? String(value) : value
  const isKey = typeof key === 'string' && key.isWellFormed() && isLengthAllowed(key)
  return isKey ? { kind: 'event', key, text } : refused('invalid-payload')
}

/** The field `id` of an object, its own or not, as a user's resolver reads it. */
export const keyIn = (payload: unknown): unknown =>
  Reflect.get(Object(payload ?? {}) as object, 'id')

const isLengthAllowed = (key: string): boolean => {
  const bytes = Buffer.byteLength(key)
  return bytes >= 1 && bytes <= 1_024
}

/** JSON text in UTF-8; an empty body is null. */
function textOf(body: Uint8Array): string | undefined {
  try {
    const text = body.byteLength === 0 ? 'null' : utf8.decode(body)
    JSON.parse(text)
    return text
  } catch {
    return undefined
  }
}
