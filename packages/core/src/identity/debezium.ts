import { hash } from 'node:crypto'
import { afterAnswer } from '../concurrency/maybe-async.ts'
import type { Resolver } from '../options/options.ts'
import { type Decode, withTraits } from './envelope-traits.ts'
import { type Fields, fieldsOf, jsonOf } from './json-fields.ts'
import { compose, ownResolver } from './resolvers.ts'

/**
 * For the option `decode`: a record of Debezium, with the JSON converter (with schemas or without) or with a decoder of
 * yours.
 *
 * - **Outbox event router:** the payload is the event. The key is the header `id`, with quotes around it or without.
 * - **Rows of a table:** the payload is the change (`op`, `before`, `after`, `source`). The key is the position of the
 *   change in the log of its database, and `after` alone is compared: a connector that reads a part of the log again
 *   makes duplicates, whatever it stamps on them.
 * - **Tombstones** are skipped.
 *
 * Your own `eventKey`, `fingerprint` and `skip` come first; tombstones stay skipped.
 *
 * @param decode - Decodes the value of a record, such as {@link unwrapConfluent}. @defaultValue JSON
 * @see https://debezium.io/documentation/reference/stable/transformations/outbox-event-router.html
 *
 * @example
 * ```ts
 * import { debezium } from '@onceward/core'
 *
 * const options = { consumer: 'billing', decode: debezium<{ orderId: string }>() }
 * ```
 */
export function debezium<Decoded = unknown>(decode?: Decode<unknown>): Decode<Decoded> {
  const unwrap: Decode<unknown> = (body, delivery) => {
    if (body.byteLength === 0) return null
    const value = decode === undefined ? jsonOf(body) : decode(body, delivery)
    return afterAnswer(value, contentOf)
  }
  return withTraits(unwrap as Decode<Decoded>, {
    eventKey: debeziumKey(),
    skip: ({ body }) => body.byteLength === 0,
    compared: (decoded) => {
      const { after, before, op } = changeOf(decoded) ?? {}
      return op === undefined ? decoded : { op, row: after ?? before ?? null }
    },
  })
}

/**
 * The key of a record of Debezium: the header `id` of the outbox event router, without the quotes that a converter of
 * headers may have put around it, or else the position of a changed row in the log of its database.
 *
 * Rows of one statement may share a position, so the key of the record belongs to it. In a table without a primary key the
 * row itself takes its place: equal rows that one `COPY` inserts are one event there.
 */
export function debeziumKey(): Resolver<unknown, string> {
  return ownResolver(({ headers, orderingKey }, decoded) => {
    const id = Object.hasOwn(headers, 'id') ? headers['id'] : undefined
    return id === undefined ? positionKey(decoded, orderingKey) : idOf(id)
  })
}

/** What the value of a record says, without the schema that the JSON converter may put beside it. */
function contentOf(value: unknown): unknown {
  const content = withoutSchema(value)
  // The JSON of an outbox table, which the JSON converter has written as a JSON text.
  if (typeof content !== 'string' || !/^\s*[[{]/.test(content)) return content
  try {
    return JSON.parse(content)
  } catch {
    return content
  }
}

function withoutSchema(value: unknown): unknown {
  const fields = fieldsOf(value)
  const isWrapped = Object.keys(fields).length === 2 && 'schema' in fields && 'payload' in fields
  return isWrapped ? fields['payload'] : value
}

function idOf(header: string): string {
  if (!/^\s*["{]/.test(header)) return header
  try {
    const id = withoutSchema(JSON.parse(header))
    return typeof id === 'string' || typeof id === 'number' ? String(id) : header
  } catch {
    return header
  }
}

function changeOf(decoded: unknown): Fields | undefined {
  const change = fieldsOf(withoutSchema(decoded))
  const { op, source } = change
  return typeof op === 'string' && typeof source === 'object' && source !== null
    ? change
    : undefined
}

/** Which log it is. */
const LOG = ['connector', 'name', 'db', 'schema', 'keyspace', 'shard', 'rs', 'table', 'collection']
/** Where in the log, by connector: PostgreSQL, MySQL and MariaDB, SQL Server and Db2, Oracle, MongoDB, Vitess. */
const POSITIONS: readonly (readonly [needed: string, ...rest: readonly string[]])[] = [
  ['lsn', 'txId'],
  ['pos', 'server_id', 'file', 'row'],
  ['commit_lsn', 'change_lsn', 'event_serial_no'],
  ['scn', 'commit_scn', 'rs_id', 'ssn', 'txId'],
  ['ord', 'ts_ms'],
  ['vgtid'],
]

function positionKey(decoded: unknown, recordKey: string | undefined): string | undefined {
  const { after, before, op, source } = changeOf(decoded) ?? {}
  const place = fieldsOf(source)
  const position = POSITIONS.find(([needed]) => textOf(place[needed]) !== undefined)
  if (position === undefined) return undefined
  const parts = [...LOG, ...position].flatMap((name) => {
    const text = textOf(place[name])
    return text === undefined ? [] : [name, text]
  })
  const row = recordKey ?? hash('sha256', JSON.stringify(after ?? before ?? null, bigintAsText))
  return compose('debezium', String(op), ...parts, row)
}

function textOf(value: unknown): string | undefined {
  return ['string', 'number', 'bigint'].includes(typeof value) ? String(value) : undefined
}

const bigintAsText = (_name: string, value: unknown): unknown =>
  typeof value === 'bigint' ? String(value) : value
