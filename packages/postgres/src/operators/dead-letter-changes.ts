import { inTransaction, type PoolClientLike, type PoolLike } from '../client.ts'
import { texts } from '../driver/rows.ts'
import { sqlState } from '../errors.ts'
import { LOCK_NOT_AVAILABLE } from '../sqlstates.ts'
import { createStatements, type Statements } from '../statements/index.ts'
import { toErrorText } from '../statements/text-columns.ts'
import {
  actOn,
  type Operation,
  type OperatorReport,
  type Untouched,
  UUID,
} from './operator-actions.ts'

/** Changes of dead letters by their ids. */
export interface DeadLetterChanges {
  replay(ids: readonly string[]): Promise<OperatorReport>
  rerun(ids: readonly string[], why: string): Promise<OperatorReport>
  discard(ids: readonly string[], why: string): Promise<OperatorReport>
}

interface ChangeParts {
  readonly pool: PoolLike
  readonly statements: Statements
  /** The operator's name for the table `audit`; null: the user of the session. */
  readonly by: string | null
}

export function createChanges({ by, pool, statements }: ChangeParts): DeadLetterChanges {
  const { discardEvents, discardRefused, replayEvents, replayRefused, rerunEvents } = statements
  return {
    replay: (ids) => {
      const change = { events: replayEvents, refused: replayRefused, values: [by] }
      return inGroups({ pool, statements, change }, ids)
    },
    rerun: (ids, why) => {
      const values = [by, toErrorText(why) ?? null]
      const change: Change = { events: rerunEvents, values, takes: 'done' }
      return inGroups({ pool, statements, change }, ids)
    },
    discard: (ids, why) => {
      const values = [by, toErrorText(why) ?? null]
      const change: Change = {
        events: discardEvents,
        refused: discardRefused,
        values,
        takes: 'all',
      }
      return inGroups({ pool, statements, change }, ids)
    },
  }
}

/** For the command line, which shows its progress from group to group. Options as for `deadLetters`. */
export function deadLetterChanges(
  pool: PoolLike,
  { by, schema }: { readonly by?: string | undefined; readonly schema?: string | undefined },
): DeadLetterChanges {
  return createChanges({ pool, statements: createStatements(schema), by: by ?? null })
}

/** Both statements take ids as `$1`, then `values`. See `replayEvents`. */
interface Change {
  readonly events: string
  /** Left out: it takes no refused messages. */
  readonly refused?: string
  readonly values: readonly (string | null)[]
  readonly takes?: Operation['takes']
}

interface Work {
  readonly pool: PoolLike
  readonly statements: Statements
  readonly change: Change
}

/** Most dead letters in one transaction. Their rows are locked until it ends, for milliseconds. */
export const GROUP_SIZE = 100

/**
 * Changes dead letters in groups, each in one transaction. Those that a group leaves out, because their row is locked or
 * is no dead letter, are decided one by one.
 */
async function inGroups(work: Work, ids: readonly string[]): Promise<OperatorReport> {
  const done: string[] = []
  const untouched: OperatorReport['untouched'][number][] = []
  for (let at = 0; at < ids.length; at += GROUP_SIZE) {
    const group = ids.slice(at, at + GROUP_SIZE)
    const changed = await changeFree(work, group)
    for (const id of group) {
      const why = changed.has(id.toLowerCase()) ? undefined : await changeOne(work, id)
      if (why === undefined) done.push(id)
      else untouched.push({ id, why })
    }
  }
  return { done, untouched }
}

/** Ids of those that were changed, without a wait for a row. */
async function changeFree(work: Work, ids: readonly string[]): Promise<ReadonlySet<string>> {
  const { change, pool, statements } = work
  const known = ids.filter((id) => UUID.test(id))
  if (known.length === 0) return new Set()
  try {
    return await inTransaction(pool, async (client) => {
      await client.query(statements.boundOperator)
      return new Set(await send(client, change, known))
    })
  } catch (error) {
    // A lock on a whole table, or on the details of an event.
    if (sqlState(error) === LOCK_NOT_AVAILABLE) return new Set()
    throw error
  }
}

async function send(
  client: PoolClientLike,
  { events, refused, values }: Change,
  ids: readonly string[],
): Promise<readonly string[]> {
  const parameters = [`{${ids.join(',')}}`, ...values]
  const changed = texts(await client.query(events, parameters))
  if (changed.length === ids.length || refused === undefined) return changed
  return [...changed, ...texts(await client.query(refused, parameters))]
}

function changeOne({ change, pool, statements }: Work, id: string): Promise<Untouched | undefined> {
  const act = async (client: PoolClientLike): Promise<Untouched | undefined> =>
    (await send(client, change, [id])).length === 0 ? 'held' : undefined
  return actOn({ pool, statements, act, takes: change.takes }, id)
}
