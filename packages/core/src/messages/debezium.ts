import { afterAnswer } from '../concurrency/maybe-async.ts'
import type { Delivery } from '../model/delivery.ts'
import { hash } from '../node.ts'
import type { Resolver } from '../options/options.ts'
import { type Decode, nameOf, withTraits } from './envelope-traits.ts'
import { compose } from './event-key.ts'
import { type Fields, fieldsOf, jsonOf } from './json-fields.ts'
import { ownResolver } from './resolvers.ts'

/**
 * For the option `decode`: a record of Debezium, with the JSON converter (with schemas or without) or with a decoder of
 * yours.
 *
 * - **Outbox event router:** the payload is the event. The key is the header `id`, with quotes around it or without.
 * - **Rows of a table:** the payload is the change (`op`, `before`, `after`, `source`). The key is the position of the
 *   change in the log of its database, and `after` alone is compared: a connector that reads a part of the log again
 *   makes duplicates, whatever it stamps on them.
 * - **Flattened rows** (`ExtractNewRecordState`): the payload is the row. The key is the position too, which the transformation
 *   must add: `add.fields` or `add.headers` with `op,name,db,schema,table` and what is the position of your connector, such as
 *   `lsn,txId` of PostgreSQL. The fields that begin with `__` are not compared.
 * - **Tombstones** and heartbeats are skipped. An outbox event without a payload is none: it has an id.
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
    name: `debezium(${nameOf(decode)})`,
    eventKey: debeziumKey(),
    skip: ({ body, headers, payload }) =>
      !Object.hasOwn(headers, 'id') && (body.byteLength === 0 || isHeartbeat(payload)),
    compared: (decoded) => {
      const { op, row } = changeOf(decoded) ?? {}
      return op === undefined ? decoded : { op, row }
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
    return id === undefined ? positionKey(changeOf(decoded, headers), orderingKey) : idOf(id)
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

interface Change {
  readonly op: string
  /** After the change, or before it if that was the last of the row. */
  readonly row: unknown
  readonly source: Fields
}

function changeOf(decoded: unknown, headers: Delivery['headers'] = {}): Change | undefined {
  const fields = fieldsOf(withoutSchema(decoded))
  const { after, before, message, op, source } = fields
  if (typeof op === 'string' && typeof source === 'object' && source !== null) {
    return { op, row: after ?? before ?? message ?? null, source: fieldsOf(source) }
  }
  return flattened(fields, headers)
}

/** What the transformation `ExtractNewRecordState` adds to the row, or to the headers of its record. */
function flattened(fields: Fields, headers: Delivery['headers']): Change | undefined {
  const added = new Map<string, unknown>(
    Object.entries(headers).flatMap(([name, text]) =>
      name.startsWith(ADDED) && text !== undefined ? [[name, idOf(text)] as const] : [],
    ),
  )
  const row: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(fields)) {
    if (name.startsWith(ADDED)) added.set(name.toLowerCase(), value)
    else row[name] = value
  }
  if (added.size === 0) return undefined
  const op = scalarText(added.get('__op')) ?? (String(added.get('__deleted')) === 'true' ? 'd' : '')
  const source = Object.fromEntries(
    [...LOG, ...POSITIONS.flat()].map((name) => {
      const spelled = name.toLowerCase()
      // `__ts_ms` is the time of the connector, and not that of the change.
      const short = name === 'ts_ms' ? undefined : added.get(`__${spelled}`)
      return [name, added.get(`__source_${spelled}`) ?? short]
    }),
  )
  return { op, row, source: isWhole(source) ? source : {} }
}

const ADDED = '__'

/** Without them a change still has a place of its own. */
const OPTIONAL: readonly string[] = ['txId', 'server_id', 'row', 'event_serial_no']

/** Users choose what is added to a row. A part of a position is that of several changes. */
function isWhole(source: Fields): boolean {
  const has = (name: string): boolean => scalarText(source[name]) !== undefined
  const isPlaced = POSITIONS.some((names) =>
    names.every((name) => OPTIONAL.includes(name) || has(name)),
  )
  return isPlaced && has('name') && (has('table') || has('collection'))
}

/** A heartbeat of a connector says when it was sent and nothing else. */
function isHeartbeat(payload: unknown): boolean {
  const fields = fieldsOf(payload)
  return typeof fields['ts_ms'] === 'number' && Object.keys(fields).length === 1
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

function positionKey(
  change: Change | undefined,
  recordKey: string | undefined,
): string | undefined {
  if (change === undefined) return undefined
  const { op, row, source } = change
  const position = POSITIONS.find(([needed]) => scalarText(source[needed]) !== undefined)
  if (position === undefined) return undefined
  const parts = [...LOG, ...position].flatMap((name) => {
    const text = scalarText(source[name])
    return text === undefined ? [] : [name, text]
  })
  const id = recordKey ?? hash('sha256', JSON.stringify(row, bigintAsText))
  return compose('debezium', op, ...parts, id)
}

function scalarText(value: unknown): string | undefined {
  return ['string', 'number', 'bigint'].includes(typeof value) ? String(value) : undefined
}

const bigintAsText = (_name: string, value: unknown): unknown =>
  typeof value === 'bigint' ? String(value) : value
