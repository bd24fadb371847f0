import {
  type DeadLetter,
  type DeadLetterReason,
  type DeadLetterRef,
  type DueEvent,
  type EventId,
  type EventKey,
  type Fingerprint,
  type Publish,
  type PublishAnswer,
  type Runtime,
  StoreUnavailableError,
} from '@onceward/core'
import { answerWithin, LATE } from '@onceward/core/adapter'
import type { Connection } from '../driver/driver.ts'
import { answers, type ConsumerContext, texts } from '../driver/rows.ts'
import type { DeadLetterRow } from '../statements/dead-letters.ts'
import { readDelivery } from '../statements/delivery-columns.ts'
import { unescapeText } from '../statements/text-columns.ts'

/** The server waits this much longer than the publisher before it frees the row of a frozen process. */
const IDLE_MARGIN_MS = 5_000

/**
 * Publishes a dead letter under the lock of its row and marks it published before the lock ends. So two processes do
 * not publish it at the same time, and no replay comes in between. A crash before the mark publishes it again.
 */
export function publishDeadLetter(
  context: ConsumerContext & { readonly runtime: Runtime },
  ref: DeadLetterRef,
  request: { readonly publish: Publish; readonly budgetMs: number },
): Promise<PublishAnswer> {
  const { driver, statements, runtime } = context
  const kind =
    ref.kind === 'event'
      ? {
          lock: statements.lockEvent,
          read: statements.readEvent,
          mark: statements.markEventPublished,
        }
      : {
          lock: statements.lockRefused,
          read: statements.readRefused,
          mark: statements.markRefusedPublished,
        }
  return driver.shortTransaction(async (connection) => {
    await boundSilence(connection, request.budgetMs)
    const [locked] = texts(await connection.query(kind.lock, [ref.id]))
    const [row] = answers<DeadLetterRow>(await connection.query(kind.read, [ref.id]))
    if (row === undefined) return 'gone'
    if (locked === undefined) return 'held'
    if (!isDeadLetter(row)) return 'gone'
    if (row.published) return 'already'
    await confirmed(runtime, request.publish(toDeadLetter(row)), request.budgetMs)
    await connection.query(kind.mark, [ref.id])
    return 'published'
  })
}

/** Stored deliveries that the poller of this guard is to run or publish. */
export async function due(
  { driver, statements, consumerId }: ConsumerContext,
  limit: number,
): Promise<readonly DueEvent[]> {
  const read = async (statement: string, most: number): Promise<readonly DueEvent[]> => {
    if (most <= 0) return []
    const rows = await driver.query(statement, [String(consumerId), String(most)])
    return answers<DeadLetterRow>(rows).map(toDueEvent)
  }
  const events = await read(statements.dueEvents, limit)
  return [...events, ...(await read(statements.dueRefused, limit - events.length))]
}

/** Whether the row is a dead letter that is not being replayed. */
export function isDeadLetter(row: DeadLetterRow): boolean {
  return row.kind === 'event' ? row.state === 'x' && row.reason !== null : !row.replay
}

export function toRef(row: DeadLetterRow): DeadLetterRef {
  return row.kind === 'event'
    ? { kind: 'event', id: row.id as EventId }
    : { kind: 'refused', id: row.id }
}

export function toDeadLetter(row: DeadLetterRow): DeadLetter {
  return {
    ref: toRef(row),
    consumer: row.consumer,
    ...(row.key === null ? {} : { key: unescapeText(row.key) }),
    reason: (row.reason ?? 'attempts-spent') as DeadLetterReason,
    ...(row.error === null ? {} : { error: row.error }),
    attempts: row.attempts,
    firstFailedAt: new Date(row.firstFailedAtMs),
    lastFailedAt: new Date(row.lastFailedAtMs),
    delivery: readDelivery(row),
  }
}

function toDueEvent(row: DeadLetterRow): DueEvent {
  const ref = toRef(row)
  const delivery = readDelivery(row)
  if (row.kind === 'refused') return { ref, what: row.replay ? 'run' : 'publish', delivery }
  const identity = {
    id: row.id as EventId,
    key: unescapeText(row.key ?? '') as EventKey,
    fingerprint: BigInt(row.fingerprint ?? 0) as Fingerprint,
    ...(row.tenant === null ? {} : { tenant: unescapeText(row.tenant) }),
  }
  return { ref, what: row.state === 'x' ? 'publish' : 'run', delivery, identity }
}

async function boundSilence(connection: Connection, budgetMs: number): Promise<void> {
  const limit = String(Math.ceil(budgetMs) + IDLE_MARGIN_MS)
  await connection.query(
    "select set_config('idle_in_transaction_session_timeout', $1::text, true) as answer",
    [limit],
  )
}

/** A late publisher may have published: the dead letter may then be published twice, but is never lost. */
async function confirmed(
  runtime: Runtime,
  published: Promise<void>,
  budgetMs: number,
): Promise<void> {
  if ((await answerWithin(runtime, published, budgetMs)) !== LATE) return
  throw new StoreUnavailableError(`The dead-letter place did not confirm within ${budgetMs} ms.`)
}
