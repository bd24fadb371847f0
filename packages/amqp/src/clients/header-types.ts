import { types } from 'node:util'

/** The largest timestamp that amqplib reads and can also write: a double below 2^64. */
export const LARGEST_TIMESTAMP: number = 2 ** 64 - 2 ** 11

const TWO_TO_63 = 2 ** 63
/** From here on amqplib takes every number for an integer. */
const TWO_TO_50 = 2 ** 50

/** amqplib reads tables of more levels than it can write: a copy of such a message could never be published. */
const MOST_LEVELS = 500

type Fields = Readonly<Record<string, unknown>>

/**
 * Headers as amqplib reads them, in the form in which amqplib writes the same values again. Written as they were read,
 * some would be refused (NaN, -Infinity, large fractions, the largest timestamps) or change their meaning (-0, a table
 * with a field called `!`). Headers that nest too deep to be written are left out.
 */
export function encodable(headers: Fields): Record<string, unknown> {
  const writable = Object.entries(headers).filter(([, value]) => !nestsDeeper(value, MOST_LEVELS))
  return toEncodableFields(writable)
}

function nestsDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null || types.isUint8Array(value)) return false
  return levels === 0 || Object.values(value).some((inner) => nestsDeeper(inner, levels - 1))
}

function toEncodableFields(fields: readonly [string, unknown][]): Record<string, unknown> {
  const entries = fields.map(([name, value]) => [name, toEncodable(value)])
  return Object.fromEntries(entries) as Record<string, unknown>
}

function toEncodable(value: unknown): unknown {
  if (typeof value === 'number') {
    return isWrittenAsRead(value) ? value : { '!': 'double', value }
  }
  if (typeof value === 'bigint') return { '!': 'int64', value }
  if (typeof value !== 'object' || value === null) return value
  if (types.isUint8Array(value)) {
    return Buffer.from(value.buffer, value.byteOffset, value.byteLength)
  }
  if (Array.isArray(value)) return value.map(toEncodable)
  return toEncodableTable(value as Fields)
}

function toEncodableTable(table: Fields): unknown {
  if (isTimestamp(table)) return { ...table, value: Math.min(table.value, LARGEST_TIMESTAMP) }
  if (isDecimal(table)) return table
  const fields = toEncodableFields(Object.entries(table))
  // amqplib reads `!` as the name of a type. Only a table whose type is given may have such a field.
  return Object.hasOwn(table, '!') ? { '!': 'object', value: fields } : fields
}

// A publisher's table may look like a value of these types, and amqplib would refuse to write it as one.

function isTimestamp(
  table: Fields,
): table is { readonly '!': 'timestamp'; readonly value: number } {
  const { value } = table
  return isTyped(table, 'timestamp') && Number.isInteger(value) && Number(value) >= 0
}

function isDecimal(table: Fields): boolean {
  if (!isTyped(table, 'decimal')) return false
  const { places, digits, ...others } = Object(table['value'])
  return isBelow(places, 2 ** 8) && isBelow(digits, 2 ** 32) && Object.keys(others).length === 0
}

const isTyped = (table: Fields, type: string): boolean =>
  table['!'] === type && Object.hasOwn(table, '!') && Object.keys(table).length === 2

const isBelow = (value: unknown, limit: number): boolean =>
  Number.isInteger(value) && Number(value) >= 0 && Number(value) < limit

function isWrittenAsRead(value: number): boolean {
  if (!Number.isInteger(value)) return Math.abs(value) < TWO_TO_50
  return !Object.is(value, -0) && value >= -TWO_TO_63 && value < TWO_TO_63
}
