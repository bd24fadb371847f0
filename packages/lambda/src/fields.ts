/** The fields of something that another service sent. */
export type Fields = Readonly<Record<string, unknown>>

export const fieldsOf = (value: unknown): Fields =>
  typeof value === 'object' && value !== null ? (value as Fields) : {}

export function toDate(value: unknown): Date | undefined {
  const isEmpty = value === undefined || value === null || value === ''
  const date = new Date(
    typeof value === 'string' && /^-?\d+$/.test(value) ? Number(value) : (value as string),
  )
  return isEmpty || Number.isNaN(date.getTime()) ? undefined : date
}
