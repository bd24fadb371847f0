import { randomUUID } from 'node:crypto'
import type { DeadLetterReason, Json } from '@onceward/core'
import { decideCount } from '@onceward/core/adapter'
import type {
  CountAnswer,
  CountedEvent,
  EventId,
  Fingerprint,
  IdentifiedEvent,
  Known,
  OwnerToken,
} from '@onceward/core/ports'
import type { Connection } from '../driver/driver.ts'
import {
  answers,
  type ConsumerContext,
  eventParameter,
  idArray,
  type StoringContext,
  texts,
} from '../driver/rows.ts'
import { sqlState } from '../errors.ts'
import { LOCK_NOT_AVAILABLE } from '../sqlstates.ts'
import type { KnownRow } from '../statements/attempts.ts'
import { storeDelivery } from '../statements/delivery-columns.ts'
import { writeBody } from './bodies.ts'

/** The stored state of each event, in order. */
export async function classify(
  { driver, statements }: ConsumerContext,
  events: readonly IdentifiedEvent[],
): Promise<readonly Known[]> {
  const rows = await readRows(driver, statements.classify, events)
  return events.map(({ id }) => {
    const row = rows.get(id)
    return row === undefined ? { kind: 'absent' } : toKnown(row)
  })
}

export type SuspectAnswer =
  | { readonly kind: 'answered'; readonly counted: readonly (CountedEvent | undefined)[] }
  | { readonly kind: 'held' }

/** Counts attempt 1 of the events without a row. The wait for one row is at most an equal share of `waitMs`. */
export async function suspect(
  { driver, statements, consumerId }: ConsumerContext,
  events: readonly IdentifiedEvent[],
  waitMs: number,
): Promise<SuspectAnswer> {
  const counted = events.map((event) => ({ event, token: newToken(), attempt: 1 }))
  const rows = counted.map(({ event, token }) => ({ ...eventParameter(event), token }))
  const boundMs = Math.max(5, Math.floor(waitMs / Math.max(1, events.length)))
  try {
    const values = [JSON.stringify(rows), String(consumerId), String(boundMs)]
    const fresh = new Set(texts(await driver.query(statements.suspect, values)))
    return {
      kind: 'answered',
      counted: counted.map((one) => (fresh.has(one.event.id) ? one : undefined)),
    }
  } catch (error) {
    if (sqlState(error) === LOCK_NOT_AVAILABLE) return { kind: 'held' }
    throw error
  }
}

/** Counts one more attempt of each event. The state under the lock of its row in `processed_events` decides. */
export function count(
  context: StoringContext & { readonly maxAttempts: number },
  events: readonly IdentifiedEvent[],
  run: 'together' | 'alone',
): Promise<readonly CountAnswer[]> {
  const { driver, statements, maxAttempts } = context
  return driver.shortTransaction(async (connection) => {
    const locked = new Set(
      texts(await connection.query(statements.lockForCount, [idArray(events)])),
    )
    const rows = await readRows(connection, statements.classify, events)
    const decided = events.map((event): Decided => {
      const row = rows.get(event.id)
      if (row === undefined) return { event, answer: { kind: 'changed' } }
      if (!locked.has(event.id)) return { event, answer: { kind: 'held' } }
      return { event, answer: answerOf(row, run, event.maxAttempts ?? maxAttempts) }
    })
    await writeCounts(context, connection, decided)
    return decided.map(({ answer }) => answer)
  })
}

interface Decided {
  readonly event: IdentifiedEvent
  readonly answer: CountAnswer
}

function answerOf(row: KnownRow, run: 'together' | 'alone', maxAttempts: number): CountAnswer {
  const decision = decideCount(toKnown(row), { noVerdicts: row.noVerdict, run, maxAttempts })
  return decision.kind === 'counted' ? { ...decision, token: newToken() } : decision
}

async function writeCounts(
  context: StoringContext,
  connection: Connection,
  decided: readonly Decided[],
): Promise<void> {
  const { statements, consumerId, maxStoredBytes } = context
  const counted = decided.flatMap(({ event, answer }) =>
    answer.kind === 'counted' ? { ...eventParameter(event), ...answer } : [],
  )
  if (counted.length > 0) {
    await connection.query(statements.count, [JSON.stringify(counted), String(consumerId)])
  }
  // One statement for each, because each carries its delivery.
  for (const { event, answer } of decided) {
    if (answer.kind !== 'buried') continue
    const { id, delivery } = event
    const stored = storeDelivery(delivery, maxStoredBytes)
    const burial = { ...eventParameter(event), ...stored, ...answer }
    await connection.query(statements.buryCounted, [JSON.stringify([burial])])
    await writeBody(context, connection, { kind: 'event', id, delivery })
  }
}

async function readRows(
  connection: Connection,
  statement: string,
  events: readonly IdentifiedEvent[],
): Promise<ReadonlyMap<EventId, KnownRow>> {
  const answer = await connection.query(statement, [idArray(events)])
  return new Map(answers<KnownRow>(answer).map((row) => [row.id as EventId, row]))
}

export function toKnown(row: KnownRow): Exclude<Known, { readonly kind: 'absent' }> {
  const fingerprint = BigInt(row.fingerprint) as Fingerprint
  const { attempt, published, remainingMs, alone, ageMs } = row
  switch (row.state) {
    case 'd':
      return {
        kind: 'done',
        fingerprint,
        ageMs,
        ...(row.hasResult && { result: row.result as Json }),
      }
    case 'x': {
      const reason = (row.reason ?? 'attempts-spent') as DeadLetterReason
      return { kind: 'dead', fingerprint, reason, attempt, published }
    }
    case 'w':
      return { kind: 'waiting', fingerprint, remainingMs, attempt, alone }
    case 'r':
      return { kind: 'running', fingerprint, attempt, ageMs }
    default:
      return row.state satisfies never
  }
}

function newToken(): OwnerToken {
  return randomUUID() as OwnerToken
}
