import type { DeliverySource, Seal } from '@onceward/core'
import { messageTypeOf, openDelivery, Sealer, systemRuntime } from '@onceward/core/ports'
import {
  escapeText,
  IS_LETTER,
  isSealedDelivery,
  readNamed,
  readProperties,
  UnreadableError,
} from '@onceward/postgres/operator'
import type { Database, Query } from './database.ts'
import { ms } from './database.ts'
import { sealedNote } from './seal.ts'

/** Which dead letters. A field that is left out matches all. */
export interface DeadLetterFilter {
  readonly consumer?: string | undefined
  readonly reason?: string | undefined
  readonly kind?: 'event' | 'refused' | undefined
  readonly sinceMs?: number | undefined
  readonly untilMs?: number | undefined
  /** Part of the key or of the error, in any case. */
  readonly search?: string | undefined
  /** {@link ErrorGroup.id}: those whose errors differ in nothing but numbers and ids. */
  readonly error?: string | undefined
  readonly limit?: number | undefined
}

/** A dead letter without its message. */
export interface DeadLetterSummary {
  readonly id: string
  readonly kind: 'event' | 'refused'
  readonly consumer: string
  readonly reason: string
  /** As stored: escaped as in a JSON string. */
  readonly key: string | null
  readonly tenant: string | null
  readonly attempts: number
  readonly firstFailedAtMs: number
  readonly lastFailedAtMs: number
  readonly published: boolean
  /** A requeue was begun and not confirmed: a copy may be in its queue. */
  readonly isRequeued: boolean
  readonly bodyBytes: number
  /** The message was too large to store. */
  readonly isOmitted: boolean
  readonly error: string | null
}

/** A dead letter with its message, whose body may be cut. */
export interface DeadLetter extends DeadLetterSummary {
  /** Where senders write it. The guard may read another place. */
  readonly type?: string | undefined
  readonly source: Readonly<Record<string, unknown>>
  readonly properties: Readonly<Record<string, unknown>>
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
  /** Body and headers are sealed and were not opened: what to show in their place. */
  readonly sealed?: string | undefined
}

export interface DeadLetterCount {
  readonly consumer: string
  readonly reason: string
  readonly count: number
  readonly oldestMs: number
}

/** Dead letters of one consumer and reason whose errors are alike. */
export interface ErrorGroup {
  readonly id: string
  readonly consumer: string
  readonly reason: string
  /** First line of their errors, with `…` for numbers and ids if they differ. */
  readonly error: string
  readonly count: number
  readonly oldestMs: number
  readonly newestMs: number
}

/** Of events that are being sent back to their queue `p.state` is `w`, and `reason` stays until that is confirmed. */
const isOpenEvent = IS_LETTER
const isOpenRefused = 'not (r.replay and r.parked)'

const line = (row: string): string =>
  `left(split_part(coalesce(${row}.error, 'no error recorded'), e'\\n', 1), 200)`

/** What a number behind these words says is a kind of error: HTTP 503 is not HTTP 404. */
const KIND = '(?<!\\m(?:status|code|http|sqlstate)\\W{0,3}\\d{0,4})'

/** Other numbers, and words of 16 characters or more with a digit, are taken for ids. */
const alike = (row: string): string =>
  `regexp_replace(${line(row)}, '${KIND}(?:\\m(?=[\\w-]*\\d)[\\w-]{16,}\\M|\\d+(?:[.:]\\d+)*)', '…', 'gi')`

const columns = (row: string, isRequeued: string): string => `
  ${isRequeued} as "isRequeued",
  c.name as consumer, ${row}.reason, ${row}.key, ${ms(`${row}.first_failed_at`)} as "firstFailedAtMs",
  ${ms(`${row}.last_failed_at`)} as "lastFailedAtMs", ${row}.published, coalesce(${row}.body_bytes, 0) as "bodyBytes",
  coalesce(${row}.body_bytes > octet_length(${row}.body) and ${row}.body_parts = 0, false) as "isOmitted", ${row}.error`

/** All open dead letters that match `$1` to `$7`, and the error. */
const matching = (quoted: string, { error }: DeadLetterFilter): string => `
  (select f.event_id::text as id, 'event' as kind, f.tenant, f.attempt as attempts, ${columns('f', "p.state = 'w'")}, f.last_failed_at as at
   from ${quoted}.failed_events f
   join ${quoted}.processed_events p on p.event_id = f.event_id
   join ${quoted}.consumers c on c.id = f.consumer_id
   where ${isOpenEvent} and ${filtered('f', 'event')}${withError('f', error)}
   union all
   select r.refused_id::text, 'refused', null, r.times, ${columns('r', 'r.replay')}, r.last_failed_at
   from ${quoted}.refused_messages r join ${quoted}.consumers c on c.id = r.consumer_id
   where ${isOpenRefused} and ${filtered('r', 'refused')}${withError('r', error)})`

const filtered = (row: string, kind: string): string => `
  ($1::text is null or c.name = $1) and ($2::text is null or ${row}.reason = $2)
  and ($3::text is null or $3 = '${kind}')
  and ($4::float8 is null or ${row}.last_failed_at >= to_timestamp($4::float8 / 1000))
  and ($5::float8 is null or ${row}.last_failed_at < to_timestamp($5::float8 / 1000))
  and ($6::text is null or position(lower($6) in lower(${row}.error)) > 0 or position(lower($7) in lower(${row}.key)) > 0)`

/** Anything but a number matches nothing, because an ignored filter would change all dead letters. */
function withError(row: string, error: string | undefined): string {
  if (error === undefined) return ''
  if (!/^-?\d{1,19}$/.test(error)) return ' and false'
  return ` and hashtextextended(${alike(row)}, 0)::text = '${error}'`
}

function valuesOf({ consumer, reason, kind, sinceMs, untilMs, search }: DeadLetterFilter) {
  // Keys are stored escaped, and errors are not.
  const inKey = search === undefined ? undefined : escapeText(search)
  return [consumer, reason, kind, sinceMs, untilMs, search, inKey].map((value) =>
    // PostgreSQL takes no NUL. In a stored error each is this sign.
    typeof value === 'string' ? value.replaceAll('\0', '\u2400') : (value ?? null),
  )
}

/** Oldest first, without the messages, so a page of large ones costs little. */
export function summaries(
  query: Query,
  { quoted }: Pick<Database, 'quoted'>,
  filter: DeadLetterFilter,
): Promise<readonly DeadLetterSummary[]> {
  return query<DeadLetterSummary>(
    `select * from ${matching(quoted, filter)} as letters order by at, id limit $8::bigint`,
    [...valuesOf(filter), filter.limit ?? null],
  )
}

export function counts(
  query: Query,
  { quoted }: Pick<Database, 'quoted'>,
  filter: DeadLetterFilter = {},
): Promise<readonly DeadLetterCount[]> {
  return query<DeadLetterCount>(
    `select consumer, reason, count(*) as count, ${ms('min(at)')} as "oldestMs" from ${matching(quoted, filter)} as letters
     group by 1, 2 order by 1, 2`,
    valuesOf(filter),
  )
}

/** The largest groups first. */
export function errorGroups(
  query: Query,
  { quoted }: Pick<Database, 'quoted'>,
  filter: DeadLetterFilter,
): Promise<readonly ErrorGroup[]> {
  return query<ErrorGroup>(
    `select hashtextextended(alike, 0)::text as id, consumer, reason, count(*) as count, ${ms('min(at)')} as "oldestMs",
       ${ms('max(at)')} as "newestMs", case when min(line) = max(line) then min(line) else alike end as error
     from (select consumer, reason, at, ${line('letters')} as line, ${alike('letters')} as alike
       from ${matching(quoted, filter)} as letters) as lines
     group by alike, consumer, reason order by count(*) desc, max(at) desc, 1 limit $8::bigint`,
    [...valuesOf(filter), filter.limit ?? null],
  )
}

/** What an action on these would change, and their ids: exactly those that were counted are changed later. */
export async function selected(
  query: Query,
  database: Pick<Database, 'quoted'>,
  filter: DeadLetterFilter,
): Promise<readonly Pick<DeadLetterSummary, 'id' | 'consumer' | 'reason'>[]> {
  return query(
    `select id, consumer, reason from ${matching(database.quoted, filter)} as letters order by at, id limit $8::bigint`,
    [...valuesOf(filter), filter.limit ?? null],
  )
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i
export const isId = (text: string): boolean => UUID.test(text)

interface DeadLetterRow extends DeadLetterSummary {
  readonly source: string
  readonly properties: string
  readonly headers: string
  readonly body: string
  readonly bodyParts: number
}

/** Bytes of a piece in the tables of parts; see `packages/postgres`. */
const PART_BYTES = 2 * 1024 * 1024

interface WantedLetter {
  readonly id: string
  /** Most bytes of the body. */
  readonly maxBytes: number
  /** Opens what is sealed. Left out: it is not shown. */
  readonly seal?: Seal | undefined
}

/**
 * One dead letter with at most `maxBytes` of its body.
 *
 * @throws {@link UnreadableError} if it is not what this version stores, or a piece of its body is missing.
 */
export async function deadLetterOf(
  query: Query,
  { quoted }: Pick<Database, 'quoted'>,
  { id, maxBytes, seal }: WantedLetter,
): Promise<DeadLetter | undefined> {
  if (!isId(id)) return undefined
  const detail = (
    row: string,
  ): string => `, ${row}.source, encode(${row}.properties, 'base64') as properties,
    encode(${row}.headers, 'base64') as headers, ${row}.body_parts as "bodyParts",
    encode(substring(${row}.body from 1 for $2::integer), 'base64') as body`
  const [row] = await query<DeadLetterRow>(
    `(select f.event_id::text as id, 'event' as kind, f.tenant, f.attempt as attempts, ${columns('f', "p.state = 'w'")} ${detail('f')}
     from ${quoted}.failed_events f
     join ${quoted}.processed_events p on p.event_id = f.event_id
     join ${quoted}.consumers c on c.id = f.consumer_id
     where f.event_id = $1::uuid and ${isOpenEvent})
     union all
     select r.refused_id::text, 'refused', null, r.times, ${columns('r', 'r.replay')} ${detail('r')}
     from ${quoted}.refused_messages r join ${quoted}.consumers c on c.id = r.consumer_id
     where r.refused_id = $1::uuid and ${isOpenRefused}`,
    // A sealed value can be opened as a whole only.
    [id, seal === undefined ? maxBytes : Math.max(maxBytes, PART_BYTES)],
  )
  if (row === undefined) return undefined
  const { source, properties, headers, body, bodyParts, ...summary } = row
  const stored = Buffer.from(body, 'base64')
  return readNamed(row, async () => {
    const isSealed = isSealedDelivery(properties)
    const most = isSealed && seal !== undefined ? row.bodyBytes : maxBytes
    const message = {
      source: JSON.parse(source),
      headers: fromBase64Json(headers),
      body: bodyParts === 0 ? stored : await readParts(query, quoted, { ...row, maxBytes: most }),
    }
    const rest = { ...summary, properties: readProperties(properties) }
    if (!isSealed) return { ...rest, ...message, type: messageTypeOf(message) }
    return { ...rest, ...(await opened(row, message, { maxBytes, seal })) }
  })
}

type Message = Pick<DeadLetter, 'source' | 'headers' | 'body'>

/** What is sealed is shown to nobody: without its key there is a note in its place. */
async function opened(
  { bodyBytes, consumer }: DeadLetterRow,
  message: Message,
  { maxBytes, seal }: Pick<WantedLetter, 'maxBytes' | 'seal'>,
): Promise<Message & Partial<DeadLetter>> {
  const { source } = message
  const hidden = (error?: unknown) => ({
    ...{ source, headers: {}, body: new Uint8Array(), sealed: sealedNote(bodyBytes, error) },
  })
  if (seal === undefined) return hidden()
  try {
    const sealer = new Sealer(seal, { consumer, runtime: systemRuntime })
    const delivery = {
      ...message,
      source: source as unknown as DeliverySource,
      sealed: true,
    } as const
    const { body, headers } = await openDelivery(sealer, delivery)
    const plain = { source, headers: headers as Message['headers'], body }
    const type = messageTypeOf({ ...plain, source: delivery.source })
    return { ...plain, type, body: body.subarray(0, maxBytes), bodyBytes: body.byteLength }
  } catch (error) {
    return hidden(error)
  }
}

export const fromBase64Json = (text: string): Readonly<Record<string, string>> =>
  JSON.parse(Buffer.from(text, 'base64').toString())

interface Parts {
  readonly id: string
  readonly kind: 'event' | 'refused'
  readonly bodyParts: number
  readonly bodyBytes: number
  readonly maxBytes: number
}

async function readParts(
  query: Query,
  quoted: string,
  { id, kind, bodyParts, bodyBytes, maxBytes }: Parts,
): Promise<Uint8Array> {
  const [table, column] =
    kind === 'event' ? ['failed_event_parts', 'event_id'] : ['refused_message_parts', 'refused_id']
  const wanted = Math.min(bodyParts, Math.ceil(maxBytes / PART_BYTES))
  const pieces: Uint8Array[] = []
  for (let part = 0; part < wanted; part += 1) {
    const [piece] = await query<{ readonly bytes: string }>(
      `select encode(bytes, 'base64') as bytes from ${quoted}.${table} where ${column} = $1::uuid and part = $2::integer`,
      [id, part],
    )
    if (piece === undefined)
      throw new UnreadableError({ id, kind }, new Error(`piece ${part} is missing`))
    pieces.push(Buffer.from(piece.bytes, 'base64'))
  }
  return Buffer.concat(pieces).subarray(0, Math.min(maxBytes, bodyBytes))
}
