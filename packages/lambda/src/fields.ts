/** The fields of something that another service sent. */
export type Fields = Readonly<Record<string, unknown>>

export const fieldsOf = (value: unknown): Fields =>
  typeof value === 'object' && value !== null ? (value as Fields) : {}

/** A text or a number as text; whatever else there is has none. */
export const textOf = (value: unknown): string | undefined =>
  typeof value === 'string' || typeof value === 'number' ? String(value) : undefined

/** A time as milliseconds or as any text that JavaScript reads. */
export function toDate(value: unknown): Date | undefined {
  // Empty text is no time.
  const text = textOf(value) ?? ''
  const isMs = typeof value === 'number' || /^-?\d+$/.test(text)
  const date = new Date(isMs ? Number(text) : text)
  return Number.isNaN(date.getTime()) ? undefined : date
}
