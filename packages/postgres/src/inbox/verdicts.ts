import type { Burial, EventId, Failure, Release, VerdictAnswer } from '@onceward/core/ports'
import type { Connection, QueryAnswer } from '../driver/driver.ts'
import { type ConsumerContext, eventParameter, type StoringContext, texts } from '../driver/rows.ts'
import { sqlState } from '../errors.ts'
import { LOCK_NOT_AVAILABLE } from '../sqlstates.ts'
import { PART_BYTES, storeDelivery } from '../statements/delivery-columns.ts'
import { toErrorText } from '../statements/text-columns.ts'
import { isInParts, writeBody } from './bodies.ts'

/** Most bytes of deliveries in one statement. */
const MAX_STATEMENT_BYTES = 8 * 1024 * 1024

export function fail(
  context: ConsumerContext,
  failures: readonly Failure[],
): Promise<readonly VerdictAnswer[]> {
  return record(context.driver, failures, (some) => failStatement(context, some))
}

/** Stores the reason, the error and the delivery, so that a replay needs only PostgreSQL. */
export async function bury(
  context: StoringContext,
  burials: readonly Burial[],
): Promise<readonly VerdictAnswer[]> {
  const { driver, maxStoredBytes } = context
  const onDisk: Connection = { query: (text, values) => driver.durable(text, values) }
  const recorded: VerdictAnswer[] = []
  for (const some of bySize(burials)) {
    const [first] = some
    const isLarge = first !== undefined && isInParts(first.event.delivery, maxStoredBytes)
    recorded.push(
      ...(isLarge
        ? await buryLarge(context, first)
        : await record(onDisk, some, (part) => buryStatement(context, part))),
    )
  }
  return recorded
}

/** A large body is stored in pieces, in the transaction of its row. */
function buryLarge(context: StoringContext, burial: Burial): Promise<readonly VerdictAnswer[]> {
  return context.driver.shortTransaction(async (connection) => {
    const answer = await record(connection, [burial], (some) => buryStatement(context, some))
    const { id, delivery } = burial.event
    if (answer[0] === 'recorded') {
      await writeBody(context, connection, { kind: 'event', id, delivery })
    }
    return answer
  })
}

/** Events that are done, with their deliveries, so that an operator can let them run again. */
export async function noteLate(context: StoringContext, events: readonly Burial[]): Promise<void> {
  const { driver, maxStoredBytes, statements } = context
  for (const some of bySize(events)) {
    const { values } = buryStatement(context, some)
    const [first] = some
    if (first !== undefined && isInParts(first.event.delivery, maxStoredBytes)) {
      await driver.shortTransaction(async (connection) => {
        const noted = texts(await connection.query(statements.noteLate, values))
        const { id, delivery } = first.event
        if (noted.length > 0) await writeBody(context, connection, { kind: 'event', id, delivery })
      })
    } else {
      await driver.query(statements.noteLate, values)
    }
  }
}

export function release(
  context: ConsumerContext,
  releases: readonly Release[],
): Promise<readonly VerdictAnswer[]> {
  return record(context.driver, releases, (some) => releaseStatement(context, some))
}

export interface Statement {
  readonly text: string
  readonly values: readonly unknown[]
}

type StatementContext = Pick<ConsumerContext, 'statements' | 'consumerId'>
type BurialContext = Pick<StoringContext, 'statements' | 'consumerId' | 'maxStoredBytes'>

/** The statement of {@link fail}, to be sent together with a ROLLBACK. */
export function failStatement(
  { statements, consumerId }: StatementContext,
  failures: readonly Failure[],
): Statement {
  const rows = failures.map(({ event, token, attempt, deferral, error, delayMs }) => ({
    ...eventParameter(event),
    ...{ token, attempt, delayMs, mostDefers: deferral?.most, error: toErrorText(error) },
  }))
  return { text: statements.fail, values: [JSON.stringify(rows), String(consumerId)] }
}

/** Which verdicts the statement recorded: it answers the ids of the rows it changed. */
export function verdictAnswers(
  verdicts: readonly { readonly event: { readonly id: EventId } }[],
  answer: QueryAnswer,
): readonly VerdictAnswer[] {
  const changed = new Set(texts(answer))
  return verdicts.map(({ event: { id } }) => {
    if (changed.has(id)) return 'recorded'
    return changed.has(`${id}!`) ? 'spent' : 'lost'
  })
}

function buryStatement(
  { statements, consumerId, maxStoredBytes }: BurialContext,
  burials: readonly Burial[],
): Statement {
  const rows = burials.map(({ event, token, attempt, error, reason }) => ({
    ...eventParameter(event),
    ...storeDelivery(event.delivery, maxStoredBytes),
    ...{ token, attempt, reason, error: toErrorText(error) },
  }))
  return { text: statements.bury, values: [JSON.stringify(rows), String(consumerId)] }
}

function releaseStatement(
  { statements }: StatementContext,
  releases: readonly Release[],
): Statement {
  const rows = releases.map(({ event, token, as }) => {
    return { id: event.id, token, noVerdict: as === 'no-verdict' ? 1 : 0 }
  })
  return { text: statements.release, values: [JSON.stringify(rows)] }
}

/** If a row stays locked, it belongs to another owner and its verdict is lost. The others are recorded one by one. */
async function record<Verdict extends { readonly event: { readonly id: EventId } }>(
  connection: Connection,
  verdicts: readonly Verdict[],
  toStatement: (verdicts: readonly Verdict[]) => Statement,
): Promise<readonly VerdictAnswer[]> {
  if (verdicts.length === 0) return []
  const { text, values } = toStatement(verdicts)
  try {
    return verdictAnswers(verdicts, await connection.query(text, values))
  } catch (error) {
    if (sqlState(error) !== LOCK_NOT_AVAILABLE) throw error
    if (verdicts.length === 1) return ['lost']
    const answers: VerdictAnswer[] = []
    for (const verdict of verdicts) {
      answers.push(...(await record(connection, [verdict], toStatement)))
    }
    return answers
  }
}

/** Statements that stay small. A body that is stored in pieces has a transaction of its own. */
function bySize(burials: readonly Burial[]): readonly (readonly Burial[])[] {
  const parts: Burial[][] = []
  let bytes = Number.POSITIVE_INFINITY
  for (const burial of burials) {
    const { byteLength } = burial.event.delivery.body
    const size = byteLength > PART_BYTES ? MAX_STATEMENT_BYTES : byteLength
    if (bytes + size > MAX_STATEMENT_BYTES) {
      parts.push([])
      bytes = 0
    }
    parts.at(-1)?.push(burial)
    bytes += size
  }
  return parts
}
