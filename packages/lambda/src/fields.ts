/** The fields of something that another service sent. */
export type Fields = Readonly<Record<string, unknown>>

export const fieldsOf = (value: unknown): Fields =>
  typeof value === 'object' && value !== null ? (value as Fields) : {}

/** Texts and numbers as text. Undefined for every other value. */
export const textOf = (value: unknown): string | undefined =>
  typeof value === 'string' || typeof value === 'number' ? String(value) : undefined

/** The value is a number of milliseconds, or a text that `Date` can read. Undefined for every other value. */
export function toDate(value: unknown): Date | undefined {
  // `Date` refuses an empty text.
  const text = textOf(value) ?? ''
  const isMs = typeof value === 'number' || /^-?\d+$/.test(text)
  const date = new Date(isMs ? Number(text) : text)
  return Number.isNaN(date.getTime()) ? undefined : date
}
