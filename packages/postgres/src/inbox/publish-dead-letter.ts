import type { DeadLetterReason, Delivery } from '@onceward/core'
import type {
  DeadLetter,
  DeadLetterRef,
  DueEvent,
  EventId,
  EventKey,
  Fingerprint,
  OwnerToken,
  PublishingEnd,
  PublishingRight,
  Runtime,
  VerdictAnswer,
} from '@onceward/core/ports'
import {
  answers,
  type ConsumerContext,
  idArray,
  type StoringContext,
  texts,
} from '../driver/rows.ts'
import type { DeadLetterRow } from '../statements/dead-letters.ts'
import { unescapeText } from '../statements/text-columns.ts'
import { readNamed, readStored, UnreadableError } from './bodies.ts'

/** Takes the right to publish a dead letter. It ends by the server's clock, so nothing is locked while the broker is asked. */
export function takePublishing(
  { driver, statements, runtime }: ConsumerContext & { readonly runtime: Runtime },
  ref: DeadLetterRef,
  rightMs: number,
): Promise<PublishingRight> {
  const [take, read] =
    ref.kind === 'event'
      ? [statements.takeEvent, statements.readEvent]
      : [statements.takeRefused, statements.readRefused]
  const token = runtime.uuid() as OwnerToken
  return driver.shortTransaction(async (connection) => {
    const [taken] = texts(await connection.query(take, [ref.id, token, String(rightMs)]))
    const [row] = answers<DeadLetterRow>(await connection.query(read, [ref.id]))
    if (row === undefined) return { kind: 'gone' }
    if (taken !== undefined) {
      const delivery = await readStored(statements, connection, row)
      return { kind: 'taken', token, letter: toDeadLetter(row, delivery) }
    }
    if (!isDeadLetter(row)) return { kind: 'gone' }
    return { kind: row.published ? 'already' : 'held' }
  })
}

/** Ends the right where the token is still its own, also after its time: no other publisher has taken it over then. */
export async function endPublishing(
  { driver, statements }: ConsumerContext,
  ref: DeadLetterRef,
  { token, as }: { readonly token: OwnerToken; readonly as: PublishingEnd },
): Promise<VerdictAnswer> {
  const text = ref.kind === 'event' ? statements.endEvent : statements.endRefused
  const [ended] = texts(await driver.durable(text, [ref.id, token, String(as === 'published')]))
  return ended === undefined ? 'lost' : 'recorded'
}

/** Rows that one search looks at. Only those that cannot be read make it look at more than it is asked for. */
const MOST_SEEN = 1_000

/**
 * Stored deliveries that the poller of this guard is to run or publish. One that cannot be read, as a later version may
 * have stored it, is left as it is, and is an error only if no other is due: it must not hold up the others.
 */
export async function due(
  context: StoringContext,
  limit: number,
  except: readonly EventId[] = [],
): Promise<readonly DueEvent[]> {
  const { statements, consumerId } = context
  const found: DueEvent[] = []
  const reading: Reading = { context, left: context.maxStoredBytes, unreadable: [], found }
  const asked = (most: number): string[] => [String(consumerId), String(most)]
  const seen: { readonly id: string }[] = except.map((id) => ({ id }))
  const mostSeen = MOST_SEEN + except.length
  let isMore: boolean
  do {
    const most = limit - found.length
    const values = [...asked(most), idArray(seen)]
    const rows = answers<DeadLetterRow>(await context.driver.query(statements.dueEvents, values))
    const isReadable = await readRows(reading, rows)
    seen.push(...rows)
    // Those that cannot be read stay due, and would be all that a search finds.
    isMore = !isReadable && rows.length === most && seen.length < mostSeen
  } while (isMore)
  if (found.length < limit) {
    const values = asked(limit - found.length)
    const rows = answers<DeadLetterRow>(await context.driver.query(statements.dueRefused, values))
    // The first of them does not wait until no event is due.
    const refused = { ...reading, found: [] }
    await readRows(refused, rows)
    found.push(...refused.found)
  }
  const [error] = reading.unreadable
  if (found.length === 0 && error !== undefined) throw error
  return found
}

interface Reading {
  readonly context: StoringContext
  /** Bytes of bodies that may still be read. */
  left: number
  readonly unreadable: Error[]
  /** What can be read, of all pages. */
  readonly found: DueEvent[]
}

/** Whether all of the rows can be read, as far as there is room for them. */
async function readRows(reading: Reading, rows: readonly DeadLetterRow[]): Promise<boolean> {
  const { context, unreadable, found } = reading
  const before = unreadable.length
  for (const row of rows) {
    // Large ones wait for a later poll, so that not all of them are in memory together.
    if (found.length > 0 && row.bodyBytes > reading.left) continue
    reading.left -= row.bodyBytes
    try {
      found.push(...(await readNamed(row, () => readDue(context, row))))
    } catch (error) {
      if (!(error instanceof UnreadableError)) throw error
      unreadable.push(error)
    }
  }
  return unreadable.length === before
}

/** Empty if the dead letter has ended while its pieces were read. */
async function readDue(
  { driver, statements }: StoringContext,
  row: DeadLetterRow,
): Promise<readonly DueEvent[]> {
  try {
    return [toDueEvent(row, await readStored(statements, driver, row))]
  } catch (error) {
    if (!(error instanceof UnreadableError)) throw error
    const read = row.kind === 'event' ? statements.readEvent : statements.readRefused
    if ((await driver.query(read, [row.id])).rows.length === 0) return []
    throw error
  }
}

/** Whether the row is a dead letter that is not being replayed. */
export function isDeadLetter(row: DeadLetterRow): boolean {
  return row.kind === 'event' ? row.state === 'x' && row.reason !== null : !row.replay
}

function toRef(row: DeadLetterRow): DeadLetterRef {
  return row.kind === 'event'
    ? { kind: 'event', id: row.id as EventId }
    : { kind: 'refused', id: row.id }
}

export function toDeadLetter(row: DeadLetterRow, delivery: Delivery): DeadLetter {
  return {
    ref: toRef(row),
    consumer: row.consumer,
    ...(row.key === null ? {} : { key: unescapeText(row.key) }),
    reason: (row.reason ?? 'attempts-spent') as DeadLetterReason,
    ...(row.error === null ? {} : { error: row.error }),
    attempts: row.attempts,
    firstFailedAt: new Date(row.firstFailedAtMs),
    lastFailedAt: new Date(row.lastFailedAtMs),
    delivery,
  }
}

function toDueEvent(row: DeadLetterRow, delivery: Delivery): DueEvent {
  const ref = toRef(row)
  if (row.kind === 'refused') return { ref, what: row.replay ? 'run' : 'publish', delivery }
  const identity = {
    id: row.id as EventId,
    key: unescapeText(row.key ?? '') as EventKey,
    fingerprint: BigInt(row.fingerprint ?? 0) as Fingerprint,
    ...(row.tenant === null ? {} : { tenant: unescapeText(row.tenant) }),
  }
  return { ref, what: row.state === 'x' ? 'publish' : 'run', delivery, identity }
}
