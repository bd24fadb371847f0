const utf8 = new TextDecoder('utf-8', { fatal: true })

/**
 * Text that stands for this value alone. amqplib rounds whole numbers above 2^53, and puts U+FFFD in place of bytes that are
 * not UTF-8: as part of a key such a text would make one event of several.
 */
export function textOf(value: unknown): string | undefined {
  const isRounded = Number.isInteger(value) && !Number.isSafeInteger(value)
  const isReplaced = typeof value === 'string' && value.includes('\uFFFD')
  return isRounded || isReplaced ? undefined : readableText(value)
}

/** Undefined for tables, lists and bytes that are not UTF-8. */
export function readableText(value: unknown): string | undefined {
  if (typeof value === 'string') return value
  if (typeof value === 'number' || typeof value === 'boolean' || typeof value === 'bigint') {
    return String(value)
  }
  if (!(value instanceof Uint8Array)) return undefined
  try {
    return utf8.decode(value)
  } catch {
    return undefined
  }
}
