import { ConfigurationError, type Delivery, type Seal } from '@onceward/core'
import { refuseUnknownNames } from '@onceward/core/adapter'
import type { DeadLetter } from '@onceward/core/ports'
import { inTransaction, type PoolLike, refuseNoPool } from '../client.ts'
import { answers, texts } from '../driver/rows.ts'
import { readNamed, readStored, UnreadableError } from '../inbox/bodies.ts'
import { toDeadLetter } from '../inbox/publish-dead-letter.ts'
import type { DeadLetterRow } from '../statements/dead-letters.ts'
import { readDelivery } from '../statements/delivery-columns.ts'
import { createStatements, type Statements } from '../statements/index.ts'
import { refuseUnfitSeal } from '../statements/seal-option.ts'
import { unescapeText } from '../statements/text-columns.ts'
import { createChanges } from './dead-letter-changes.ts'
import {
  checkFilter,
  type DeadLetterFilter,
  type DeadLetterTarget,
  filterOf,
} from './dead-letter-filter.ts'
import { readOpened, type Unopened } from './opened-delivery.ts'
import { isFreed, isOpen, type OperatorReport, readDeadLetter } from './operator-actions.ts'
import { type QueueSender, requeue } from './requeue.ts'

/** A dead letter as PostgreSQL stores it. */
export interface StoredDeadLetter extends DeadLetter {
  /** Its id in {@link DeadLetters}: the event id, or the hash of a refused message. */
  readonly id: string
  readonly tenant?: string | undefined
  /** Whether it was published to the broker's dead-letter place. */
  readonly published: boolean
  /** Whether a requeue of it was begun and its message not confirmed: a copy may be in its queue. */
  readonly requeued: boolean
  /**
   * Given if the message is sealed and could not be opened: `delivery` is then without body, headers and envelope. Replay needs
   * no key here, because the guard opens it; requeue does.
   */
  readonly sealed?: Unopened | undefined
}

/** Actions of operators on dead letters: buried events and refused messages. */
export interface DeadLetters {
  /**
   * Oldest first; read in pages while it is iterated.
   *
   * @throws {@link ConfigurationError} at the first step for a filter with unknown fields or values. An error that names
   *   the first dead letter that cannot be read, as one of a newer version, behind all the others.
   */
  list(filter?: DeadLetterFilter): AsyncIterable<StoredDeadLetter>
  show(id: string): Promise<StoredDeadLetter | undefined>
  /**
   * Runs the event again, with a full set of attempts and alone in its process. Any running guard of its consumer does
   * so within seconds, from PostgreSQL. Nothing is published, and redelivered copies find the state of the event, so the
   * effect happens at most once. An event whose effect is committed never runs again.
   *
   * Many are changed in groups, each in one transaction: what was changed stays so if the call is interrupted.
   *
   * @param target - An id, a filter that says something, or `{ all: true }`.
   * @throws {@link ConfigurationError} for `{}`, `{ consumer: undefined }`, unknown fields and values; nothing was done.
   */
  replay(target: DeadLetterTarget): Promise<OperatorReport>
  /**
   * Runs an event again that is done without a statement of its handler (reason `late-statement`): what its handler has
   * committed then happens a second time, unless you have undone it. Replay never does that. As for the rest, as `replay`.
   *
   * @param target - As for `replay`. All others that it selects are left as they are.
   * @param why - Stored in the table `audit`.
   * @throws {@link ConfigurationError} as `replay` does; nothing was done.
   */
  rerun(target: DeadLetterTarget, why: string): Promise<OperatorReport>
  /**
   * Discards the dead letter and deletes its delivery. A buried event stays dead, so its copies are settled without a
   * run.
   *
   * @param target - As for `replay`.
   * @param why - Stored in the table `audit`.
   * @throws {@link ConfigurationError} as `replay` does; nothing was done.
   */
  discard(target: DeadLetterTarget, why: string): Promise<OperatorReport>
  /**
   * Sends the message back to the queue that it came from, for consumers that must get it from there. Deliveries may run
   * the event again from then on, and the message stays here until the broker has confirmed it: no crash loses it. After
   * a crash the dead letter is still listed, and a second try is harmless, because both copies are one event.
   *
   * @param target - As for `replay`.
   * @param sender - Rejections of `ready` end the call; the dead letter in question is unchanged.
   * @throws {@link ConfigurationError} as `replay` does; nothing was done.
   */
  requeue(target: DeadLetterTarget, sender: QueueSender): Promise<OperatorReport>
}

/** Options of {@link deadLetters}. */
export interface DeadLettersOptions {
  /** Schema of the tables. @defaultValue `onceward` */
  readonly schema?: string | undefined
  /**
   * The operator's name for the table `audit`; not empty. The role of `docs/least-privilege.sql` may give no other name
   * than its login. @defaultValue the user of the database session
   */
  readonly by?: string | undefined
  /** The `seal` of the guards: opens what is sealed, to list and to requeue it. @defaultValue none */
  readonly seal?: Seal | undefined
}

const PAGE = 50

/**
 * @param pool - pg's `Pool`, or anything with its `connect()`.
 *
 * @example
 * ```ts
 * import { deadLetters } from '@onceward/postgres'
 *
 * const letters = deadLetters(pool, { by: 'alice' })
 * for await (const { id, reason, error } of letters.list({ consumer: 'billing' })) {
 *   console.log(id, reason, error)
 * }
 * await letters.replay({ consumer: 'billing', reason: 'attempts-spent' })
 * ```
 */
export function deadLetters(pool: PoolLike, options: DeadLettersOptions = {}): DeadLetters {
  refuseNoPool('deadLetters', pool)
  refuseUnknownNames('deadLetters', options, { schema: true, by: true, seal: true })
  refuseOddName(options.by)
  refuseUnfitSeal('deadLetters', options.seal)
  const statements = createStatements(options.schema)
  const { seal } = options
  const reading: Reading = { pool, statements, seal }
  const by = options.by ?? null
  const changes = createChanges({ pool, statements, by })
  const selected = (caller: string, target: DeadLetterTarget): Promise<readonly string[]> =>
    idsOf(pool, statements, { caller, target })
  return {
    list: (filter = {}) => list(reading, filter),
    show: async (id) => {
      const row = await inTransaction(pool, (client) => readDeadLetter(client, statements, id))
      return row !== undefined && isOpen(row) ? stored(reading, row) : undefined
    },
    replay: async (target) => changes.replay(await selected('deadLetters.replay', target)),
    rerun: async (target, why) => {
      refuseNoReason('rerun', why)
      return changes.rerun(await selected('deadLetters.rerun', target), why)
    },
    discard: async (target, why) => {
      refuseNoReason('discard', why)
      return changes.discard(await selected('deadLetters.discard', target), why)
    },
    requeue: async (target, sender) => {
      const done: string[] = []
      const untouched: OperatorReport['untouched'][number][] = []
      // One by one: the broker confirms each message.
      for (const id of await selected('deadLetters.requeue', target)) {
        const answer = await requeue({ pool, statements, by, seal, sender }, id)
        if (answer === undefined) done.push(id)
        else untouched.push({ id, ...answer })
      }
      return { done, untouched }
    },
  }
}

/** PostgreSQL refuses a NUL. */
function refuseOddName(by: unknown): void {
  if (by === undefined || (typeof by === 'string' && by !== '' && !by.includes('\0'))) return
  throw new ConfigurationError(
    'Expected `by` of deadLetters to be the name of an operator, without a NUL. Leave it out for the user of the database session.',
  )
}

/** It cannot be undone, so its audit says why it was made. */
function refuseNoReason(verb: 'discard' | 'rerun', why: unknown): void {
  if (typeof why === 'string') return
  throw new ConfigurationError(
    `Expected \`why\` of deadLetters.${verb} to be a string, got ${why === null ? 'null' : typeof why}. Write \`${verb}(target, 'test data of a producer')\`.`,
  )
}

interface Reading {
  readonly pool: PoolLike
  readonly statements: Statements
  readonly seal: Seal | undefined
}

interface ListedRow {
  readonly at: string
  readonly deadLetter: DeadLetterRow
}

/** One that cannot be read does not hold up the others. */
async function* list(
  reading: Reading,
  filter: DeadLetterFilter,
): AsyncGenerator<StoredDeadLetter, void, undefined> {
  checkFilter('deadLetters.list', filter)
  let unreadable: Error | undefined
  for await (const row of rowsOf(reading, filter)) {
    const letter = await stored(reading, row).catch((error: unknown) => {
      if (!(error instanceof UnreadableError)) throw error
      unreadable ??= error
      return undefined
    })
    if (letter !== undefined) yield letter
  }
  if (unreadable !== undefined) throw unreadable
}

/** Reads pages by position, not by number, so dead letters that come or go meanwhile do not shift the pages. */
async function* rowsOf(
  { pool, statements }: Reading,
  filter: DeadLetterFilter,
): AsyncGenerator<DeadLetterRow, void, undefined> {
  let after: readonly [string | null, string | null] = [null, null]
  let left = filter.limit ?? Number.POSITIVE_INFINITY
  while (left > 0) {
    const size = Math.min(PAGE, left)
    const values = [...filterValues(filter), ...after, String(size)]
    const page = await inTransaction(pool, (client) =>
      client.query(statements.listDeadLetters, values),
    )
    const rows = answers<ListedRow>(page)
    for (const { deadLetter } of rows) yield deadLetter
    const last = rows.at(-1)
    if (last === undefined || rows.length < size) return
    after = [last.at, last.deadLetter.id]
    left -= rows.length
  }
}

interface Selection {
  /** The function that was called, for error texts. */
  readonly caller: string
  readonly target: DeadLetterTarget
}

/** Reads all ids at once, so that an event that dies again during a replay is not replayed twice. */
async function idsOf(
  pool: PoolLike,
  { listIds }: Statements,
  { caller, target }: Selection,
): Promise<readonly string[]> {
  if (typeof target === 'string') return [target]
  const filter = filterOf(caller, target)
  const limit = filter.limit === undefined ? null : String(filter.limit)
  const values = [...filterValues(filter), null, null, limit]
  return texts(await inTransaction(pool, (client) => client.query(listIds, values)))
}

function filterValues(filter: DeadLetterFilter): readonly (string | null)[] {
  const { consumer, reason, kind, since, until } = filter
  return [consumer ?? null, reason ?? null, kind ?? null, instant(since), instant(until)]
}

/** PostgreSQL reads only years of four digits in this form, and no year 0. No dead letter is from another year. */
function instant(date: Date | undefined): string | null {
  if (date === undefined) return null
  const year = date.getUTCFullYear()
  if (year < 1) return '-infinity'
  return year > 9_999 ? 'infinity' : date.toISOString()
}

/** Undefined if it was dealt with while its body was read. */
function stored(
  { pool, seal, statements }: Reading,
  row: DeadLetterRow,
): Promise<StoredDeadLetter | undefined> {
  return readNamed(row, async () => {
    const delivery =
      row.bodyParts === 0 ? readDelivery(row) : await largeDelivery(pool, statements, row)
    if (delivery === undefined) return undefined
    const read = await readOpened(seal, row.consumer, delivery)
    return {
      ...toDeadLetter(row, read.delivery),
      ...(read.sealed === undefined ? {} : { sealed: read.sealed }),
      id: row.id,
      ...(row.tenant === null ? {} : { tenant: unescapeText(row.tenant) }),
      published: row.published,
      requeued: isFreed(row),
    }
  })
}

/** Large bodies are read one by one, when they are asked for. */
function largeDelivery(
  pool: PoolLike,
  statements: Statements,
  row: DeadLetterRow,
): Promise<Delivery | undefined> {
  return inTransaction(pool, async (client) => {
    try {
      return await readStored(statements, client, row)
    } catch (error) {
      if (!(error instanceof UnreadableError)) throw error
      // A replay, a discard or a requeue deletes the pieces of the body.
      const now = await readDeadLetter(client, statements, row.id)
      if (now === undefined || !isOpen(now)) return undefined
      throw error
    }
  })
}
