import type {
  DeadLetter,
  DeadLetterReason,
  DeadLetterRef,
  Delivery,
  DueEvent,
  EventId,
  EventKey,
  Fingerprint,
  OwnerToken,
  PublishingEnd,
  PublishingRight,
  Runtime,
  VerdictAnswer,
} from '@onceward/core'
import { answers, type ConsumerContext, type StoringContext, texts } from '../driver/rows.ts'
import type { DeadLetterRow } from '../statements/dead-letters.ts'
import { unescapeText } from '../statements/text-columns.ts'
import { readStored } from './bodies.ts'

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

/** Ends the right where the token is still its own, also after its time: nobody has taken it over then. */
export async function endPublishing(
  { driver, statements }: ConsumerContext,
  ref: DeadLetterRef,
  { token, as }: { readonly token: OwnerToken; readonly as: PublishingEnd },
): Promise<VerdictAnswer> {
  const text = ref.kind === 'event' ? statements.endEvent : statements.endRefused
  const [ended] = texts(await driver.durable(text, [ref.id, token, String(as === 'published')]))
  return ended === undefined ? 'lost' : 'recorded'
}

/**
 * Stored deliveries that the poller of this guard is to run or publish. One that cannot be read, as a later version may
 * have stored it, is left as it is, and is an error only if no other is due: it must not hold up the others.
 */
export async function due(
  { driver, statements, consumerId, maxStoredBytes }: StoringContext,
  limit: number,
): Promise<readonly DueEvent[]> {
  let left = maxStoredBytes
  const unreadable: Error[] = []
  const read = async (statement: string, most: number): Promise<readonly DueEvent[]> => {
    if (most <= 0) return []
    const rows = await driver.query(statement, [String(consumerId), String(most)])
    const events: DueEvent[] = []
    for (const row of answers<DeadLetterRow>(rows)) {
      // Large ones wait for a later poll, so that not all of them are in memory together.
      if (events.length > 0 && row.bodyBytes > left) continue
      left -= row.bodyBytes
      try {
        events.push(toDueEvent(row, await readStored(statements, driver, row)))
      } catch (cause) {
        // Only of JSON: an error of the database concerns every row.
        if (!(cause instanceof SyntaxError)) throw cause
        unreadable.push(unreadableRow(row, cause))
      }
    }
    return events
  }
  const events = await read(statements.dueEvents, limit)
  const all = [...events, ...(await read(statements.dueRefused, limit - events.length))]
  if (all.length === 0 && unreadable[0] !== undefined) throw unreadable[0]
  return all
}

const unreadableRow = ({ id, kind }: DeadLetterRow, cause: SyntaxError): Error =>
  new Error(
    `The stored delivery of ${kind === 'event' ? 'event' : 'refused message'} ${id} cannot be read. If a newer version of onceward stored it, update onceward; otherwise discard it.`,
    { cause },
  )

/** Whether the row is a dead letter that is not being replayed. */
export function isDeadLetter(row: DeadLetterRow): boolean {
  return row.kind === 'event' ? row.state === 'x' && row.reason !== null : !row.replay
}

export function toRef(row: DeadLetterRow): DeadLetterRef {
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
