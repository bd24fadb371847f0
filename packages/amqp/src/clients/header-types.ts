import { types } from 'node:util'

/** The largest timestamp that amqplib reads and can also write: a double below 2^64. */
export const LARGEST_TIMESTAMP: number = 2 ** 64 - 2 ** 11

const TWO_TO_63 = 2 ** 63
/** From here on amqplib takes every number for an integer. */
const TWO_TO_50 = 2 ** 50

/** amqplib reads tables of more levels than it can write: a copy of such a message could never be published. */
const MOST_LEVELS = 500

/**
 * Headers as amqplib reads them, in the form in which amqplib writes the same values again. Written as they were read,
 * some would be refused (NaN, -Infinity, large fractions, the largest timestamps) or change their meaning (-0, a table
 * with a field called `!`). Headers that nest too deep to be written are left out.
 */
export function encodable(headers: Readonly<Record<string, unknown>>): Record<string, unknown> {
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
  return toEncodableTable(value as Readonly<Record<string, unknown>>)
}

function toEncodableTable(table: Readonly<Record<string, unknown>>): unknown {
  const type = Object.hasOwn(table, '!') ? table['!'] : undefined
  if (type === 'timestamp' && typeof table['value'] === 'number') {
    return { ...table, value: Math.min(table['value'], LARGEST_TIMESTAMP) }
  }
  if (type === 'decimal' && typeof table['value'] === 'object') return table
  const fields = toEncodableFields(Object.entries(table))
  // amqplib reads `!` as the name of a type. Only a table whose type is given may have such a field.
  return Object.hasOwn(table, '!') ? { '!': 'object', value: fields } : fields
}

function isWrittenAsRead(value: number): boolean {
  if (!Number.isInteger(value)) return Math.abs(value) < TWO_TO_50
  return !Object.is(value, -0) && value >= -TWO_TO_63 && value < TWO_TO_63
}
