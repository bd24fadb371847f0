import type { DeadLetter } from '@onceward/core'
import { refuseUnknownNames } from '@onceward/core/adapter'
import { inTransaction, type PoolClientLike, type PoolLike } from './client.ts'
import {
  checkFilter,
  type DeadLetterFilter,
  type DeadLetterTarget,
  filterOf,
} from './dead-letter-filter.ts'
import { answers, texts } from './driver/rows.ts'
import { sqlState } from './errors.ts'
import { readStored } from './inbox/bodies.ts'
import { isDeadLetter, toDeadLetter } from './inbox/publish-dead-letter.ts'
import { LOCK_NOT_AVAILABLE } from './sqlstates.ts'
import type { KnownRow } from './statements/attempts.ts'
import type { DeadLetterRow } from './statements/dead-letters.ts'
import { isOmitted, readDelivery } from './statements/delivery-columns.ts'
import { createStatements, type Statements } from './statements/index.ts'
import { toErrorText, unescapeText } from './statements/text-columns.ts'

/** A dead letter as PostgreSQL stores it. */
export interface StoredDeadLetter extends DeadLetter {
  /** Its id in {@link DeadLetters}: the event id, or the hash of a refused message. */
  readonly id: string
  readonly tenant?: string | undefined
  /** Whether it was published to the broker's dead-letter place. */
  readonly published: boolean
}

/** Why a dead letter was not changed. */
export type Untouched =
  /** No such dead letter. */
  | 'unknown'
  /** The effect of the event is committed, so another run would repeat it. */
  | 'done'
  /** The event is being retried or replayed already. */
  | 'not-dead'
  /** Another process is publishing it, for 15 s at most, or its row stayed locked. Try again. */
  | 'held'
  /** Its delivery was too large to store: move it back from the broker's dead-letter place instead. */
  | 'not-stored'

export interface OperatorReport {
  /** Ids of the changed dead letters. */
  readonly done: readonly string[]
  readonly untouched: readonly { readonly id: string; readonly why: Untouched }[]
}

/** Actions of operators on dead letters: buried events and refused messages. */
export interface DeadLetters {
  /**
   * Oldest first; read in pages while it is iterated.
   *
   * @throws {@link ConfigurationError} at the first step for a filter with unknown fields or values.
   */
  list(filter?: DeadLetterFilter): AsyncIterable<StoredDeadLetter>
  show(id: string): Promise<StoredDeadLetter | undefined>
  /**
   * Runs the event again, with a full set of attempts and alone in its process. Any running guard of its consumer does
   * so within seconds, from PostgreSQL. Nothing is published, and redelivered copies find the state of the event, so the
   * effect happens at most once. An event whose effect is committed never runs again.
   *
   * @param target - An id, a filter that says something, or `{ all: true }`.
   * @throws {@link ConfigurationError} for `{}`, `{ consumer: undefined }`, unknown fields and values; nothing was done.
   */
  replay(target: DeadLetterTarget): Promise<OperatorReport>
  /**
   * Discards the dead letter and deletes its delivery. A buried event stays dead, so its copies are settled without a
   * run.
   *
   * @param target - As for `replay`.
   * @param why - Stored in the table `audit`.
   * @throws {@link ConfigurationError} as `replay` does; nothing was done.
   */
  discard(target: DeadLetterTarget, why: string): Promise<OperatorReport>
}

/** Options of {@link deadLetters}. */
export interface DeadLettersOptions {
  /** Schema of the tables. @defaultValue `onceward` */
  readonly schema?: string | undefined
  /**
   * The operator's name for the table `audit`. The role of `docs/least-privilege.sql` may give no other name than its
   * login. @defaultValue the user of the database session
   */
  readonly by?: string | undefined
}

const PAGE = 50
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

type Act = (client: PoolClientLike, row: DeadLetterRow) => Promise<void>

/** @param pool - pg's `Pool`, or anything with its `connect()`. */
export function deadLetters(pool: PoolLike, options: DeadLettersOptions = {}): DeadLetters {
  refuseUnknownNames('deadLetters', options, { schema: true, by: true })
  const statements = createStatements(options.schema)
  const by = options.by ?? null
  const each = async (
    caller: string,
    target: DeadLetterTarget,
    act: Act,
  ): Promise<OperatorReport> => {
    const ids =
      typeof target === 'string'
        ? [target]
        : await idsOf(pool, statements, filterOf(caller, target))
    const done: string[] = []
    const untouched: { id: string; why: Untouched }[] = []
    for (const id of ids) {
      const why = await actOn({ pool, statements, act }, id)
      if (why === undefined) done.push(id)
      else untouched.push({ id, why })
    }
    return { done, untouched }
  }
  return {
    list: (filter = {}) => list(pool, statements, filter),
    show: async (id) => {
      const row = await inTransaction(pool, (client) => readDeadLetter(client, statements, id))
      return row !== undefined && isOpen(row) ? stored(pool, statements, row) : undefined
    },
    replay: (target) =>
      each('deadLetters.replay', target, async (client, { kind, id }) => {
        const { replayEvent, replayRefused } = statements
        await client.query(kind === 'event' ? replayEvent : replayRefused, [id, by])
      }),
    discard: (target, why) =>
      each('deadLetters.discard', target, async (client, { kind, id }) => {
        const { discardEvent, discardRefused } = statements
        const text = kind === 'event' ? discardEvent : discardRefused
        await client.query(text, [id, by, toErrorText(why) ?? null])
      }),
  }
}

interface Operation {
  readonly pool: PoolLike
  readonly statements: Statements
  readonly act: Act
}

/** One dead letter in its own transaction, decided by its state under the lock of its row. */
async function actOn(operation: Operation, id: string): Promise<Untouched | undefined> {
  const { pool, statements, act } = operation
  if (!UUID.test(id)) return 'unknown'
  try {
    return await inTransaction(pool, async (client) => {
      await client.query(statements.boundOperator)
      await client.query(statements.lockEventRow, [id])
      await client.query(statements.lockRefusedRow, [id])
      const row = await readDeadLetter(client, statements, id)
      if (row === undefined || !isOpen(row)) return whyNot(client, statements, id)
      if (row.publishing) return 'held'
      if (isOmitted(row)) return 'not-stored'
      await act(client, row)
      return undefined
    })
  } catch (error) {
    if (sqlState(error) === LOCK_NOT_AVAILABLE) return 'held'
    throw error
  }
}

/** Whether an operator can still act on it. */
function isOpen(row: DeadLetterRow): boolean {
  return isDeadLetter(row) && !row.discarded
}

/** Why an id is not the id of a dead letter: the event may be in another state. */
async function whyNot(
  client: PoolClientLike,
  statements: Statements,
  id: string,
): Promise<Untouched> {
  const [known] = answers<KnownRow>(await client.query(statements.classify, [`{${id}}`]))
  if (known === undefined || known.state === 'x') return 'unknown'
  return known.state === 'd' ? 'done' : 'not-dead'
}

async function readDeadLetter(
  client: PoolClientLike,
  { readEvent, readRefused }: Statements,
  id: string,
): Promise<DeadLetterRow | undefined> {
  if (!UUID.test(id)) return undefined
  const [event] = answers<DeadLetterRow>(await client.query(readEvent, [id]))
  if (event !== undefined) return event
  return answers<DeadLetterRow>(await client.query(readRefused, [id]))[0]
}

interface ListedRow {
  readonly at: string
  readonly deadLetter: DeadLetterRow
}

/** Reads pages by position, not by number, so dead letters that come or go meanwhile do not shift the pages. */
async function* list(
  pool: PoolLike,
  statements: Statements,
  filter: DeadLetterFilter,
): AsyncGenerator<StoredDeadLetter, void, undefined> {
  checkFilter('deadLetters.list', filter)
  let after: readonly [string | null, string | null] = [null, null]
  let left = filter.limit ?? Number.POSITIVE_INFINITY
  while (left > 0) {
    const size = Math.min(PAGE, left)
    const values = [...filterValues(filter), ...after, String(size)]
    const page = await inTransaction(pool, (client) =>
      client.query(statements.listDeadLetters, values),
    )
    const rows = answers<ListedRow>(page)
    for (const { deadLetter } of rows) yield await stored(pool, statements, deadLetter)
    const last = rows.at(-1)
    if (last === undefined || rows.length < size) return
    after = [last.at, last.deadLetter.id]
    left -= rows.length
  }
}

/** Reads all ids at once, so that an event that dies again during a replay is not replayed twice. */
async function idsOf(
  pool: PoolLike,
  { listIds }: Statements,
  filter: DeadLetterFilter,
): Promise<readonly string[]> {
  const limit = filter.limit === undefined ? null : String(filter.limit)
  const values = [...filterValues(filter), null, null, limit]
  return texts(await inTransaction(pool, (client) => client.query(listIds, values)))
}

function filterValues(filter: DeadLetterFilter): readonly (string | null)[] {
  const { consumer, reason, kind, since, until } = filter
  const iso = (date: Date | undefined): string | null => date?.toISOString() ?? null
  return [consumer ?? null, reason ?? null, kind ?? null, iso(since), iso(until)]
}

/** Large bodies are read one by one, when they are asked for. */
async function stored(
  pool: PoolLike,
  statements: Statements,
  row: DeadLetterRow,
): Promise<StoredDeadLetter> {
  const delivery =
    row.bodyParts === 0
      ? readDelivery(row)
      : await inTransaction(pool, (client) => readStored(statements, client, row))
  return {
    ...toDeadLetter(row, delivery),
    id: row.id,
    ...(row.tenant === null ? {} : { tenant: unescapeText(row.tenant) }),
    published: row.published,
  }
}
