import { inTransaction, type PoolClientLike, type PoolLike } from '../client.ts'
import { answers } from '../driver/rows.ts'
import { sqlState } from '../errors.ts'
import { isDeadLetter } from '../inbox/publish-dead-letter.ts'
import { LOCK_NOT_AVAILABLE } from '../sqlstates.ts'
import type { KnownRow } from '../statements/attempts.ts'
import type { DeadLetterRow } from '../statements/dead-letters.ts'
import { isOmitted } from '../statements/delivery-columns.ts'
import type { Statements } from '../statements/index.ts'

export const UUID: RegExp = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/** Why a dead letter was not changed. */
export type Untouched =
  /** No such dead letter. */
  | 'unknown'
  /** The effect of the event is committed, so another run would repeat it: only `rerun` does that. */
  | 'done'
  /** The event is being retried or replayed already. */
  | 'not-dead'
  /** `rerun`: its effect is not committed. Replay it. */
  | 'not-done'
  /** Another process is publishing it, for 15 s at most, or its row stayed locked. Try again. */
  | 'held'
  /** Its delivery was too large to store: move it back from the broker's dead-letter place instead. */
  | 'not-stored'
  /** `requeue`: it came from a queue that the sender does not own. */
  | 'other-queue'
  /** `requeue`: its event key is made of the broker's id or position, so its copy would be another event. */
  | 'broker-key'
  /** `requeue`: it is one item of a message, and its queue has whole messages. Replay it. */
  | 'item'
  /** `requeue`: its message is sealed and cannot be opened. Give `seal` with its key, or replay it: the guard opens it. */
  | 'sealed'
  /** `requeue`: the broker has refused the message, and nothing was sent. */
  | 'not-sent'
  /**
   * `requeue`: the broker has not confirmed the message, so a copy may be in the queue. It stays a dead letter. A refused
   * message is not sent a second time, because its event key is unknown: look into the queue, then replay or discard it.
   */
  | 'unconfirmed'

/** A dead letter that was left as it is. */
export interface UntouchedLetter {
  readonly why: Untouched
  /** What the broker said. */
  readonly error?: string | undefined
}

type UntouchedIn = { readonly id: string } & UntouchedLetter

export interface OperatorReport {
  /** Ids of the changed dead letters. */
  readonly done: readonly string[]
  readonly untouched: readonly UntouchedIn[]
}

/** A change of one dead letter, under the lock of its row. */
export type Act = (client: PoolClientLike, row: DeadLetterRow) => Promise<Untouched | undefined>

export interface Operation {
  readonly pool: PoolLike
  readonly statements: Statements
  readonly act: Act
  /** Which letters it takes. `done`: those of events that are done without a statement of their handler. */
  readonly takes?: 'all' | 'done' | undefined
}

/** One dead letter in its own transaction, decided by its state under the lock of its row. */
export async function actOn(operation: Operation, id: string): Promise<Untouched | undefined> {
  const { pool, statements, act, takes } = operation
  if (!UUID.test(id)) return 'unknown'
  try {
    return await inTransaction(pool, async (client) => {
      await client.query(statements.boundOperator)
      await client.query(statements.lockEventRow, [id])
      await client.query(statements.lockRefusedRow, [id])
      const row = await readDeadLetter(client, statements, id)
      if (row === undefined || !isOpen(row)) return whyNot(client, statements, id)
      const isDone = row.state === 'd'
      if (takes !== 'all' && isDone !== (takes === 'done')) return isDone ? 'done' : 'not-done'
      if (row.publishing) return 'held'
      if (isOmitted(row)) return 'not-stored'
      return await act(client, row)
    })
  } catch (error) {
    if (sqlState(error) === LOCK_NOT_AVAILABLE) return 'held'
    throw error
  }
}

/** Whether an operator can still act on it. */
export function isOpen(row: DeadLetterRow): boolean {
  return !row.discarded && (isDeadLetter(row) || isFreed(row) || isLate(row))
}

/** A requeue of it was begun, and the broker has not confirmed its message. */
export function isFreed({ kind, parked, reason, replay, state }: DeadLetterRow): boolean {
  return kind === 'event' ? state === 'w' && reason !== null : replay && !parked
}

/** The event is done without a statement of its handler. */
function isLate({ reason, state }: DeadLetterRow): boolean {
  return state === 'd' && reason === 'late-statement'
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

export async function readDeadLetter(
  client: PoolClientLike,
  { readEvent, readRefused }: Statements,
  id: string,
): Promise<DeadLetterRow | undefined> {
  if (!UUID.test(id)) return undefined
  const [event] = answers<DeadLetterRow>(await client.query(readEvent, [id]))
  if (event !== undefined) return event
  return answers<DeadLetterRow>(await client.query(readRefused, [id]))[0]
}
