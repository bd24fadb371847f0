import type { Commit } from '@onceward/core/ports'
import {
  DURABLE_IF_OFF,
  durableText,
  HEAR_WARNINGS,
  ownIdentity,
  ownSettings,
  type SessionSettings,
} from '../driver/session-settings.ts'
import { literal } from '../driver/sql-literal.ts'
import { flushTexts } from './outbox-sql.ts'

export interface CommitTarget {
  /** Quoted for SQL. */
  readonly schema: string
  /** As the transaction began. */
  readonly settings: SessionSettings
  /** Whether the handler may have changed the settings, as far as its statements show. */
  readonly hasChangedSettings: boolean
  readonly budgetMs: number
}

/**
 * Deferred constraints and triggers are part of the handler's effect. They run before the statements of onceward, under
 * the role and the settings that the handler left.
 */
export const RUN_DEFERRED = 'set constraints all immediate'

/**
 * COMMIT and the statements that travel with it. Those of onceward run as the user that began the transaction, under
 * settings of their own. A handler may turn durability up, but not off.
 */
export function commitTexts(commit: Commit, target: CommitTarget): readonly string[] {
  const { settings, hasChangedSettings, budgetMs } = target
  const storing = storingTexts(commit, target.schema)
  const durable = hasChangedSettings ? DURABLE_IF_OFF : durableText(settings)
  const hidesWarnings = hasChangedSettings || settings.clientMinMessages === 'error'
  const heard = hidesWarnings ? [HEAR_WARNINGS] : []
  if (storing.length === 0 && !hasChangedSettings) return [...heard, durable, 'commit']
  return [
    durable,
    RUN_DEFERRED,
    ...ownIdentity(settings),
    ...(storing.length > 0 ? [...ownSettings(budgetMs), ...storing] : []),
    ...heard,
    // Again, because the triggers may have changed it.
    durable,
    'commit',
  ]
}

/**
 * Whether a statement of onceward itself failed, by the number of texts that completed. A deferred trigger of the handler
 * fails before them, and what fails at COMMIT may be either.
 */
export function isOwnFailure(texts: readonly string[], completed: number): boolean {
  const deferred = texts.indexOf(RUN_DEFERRED)
  return deferred !== -1 && completed > deferred && completed < texts.length - 1
}

function storingTexts(
  { results, recovered, sends = [] }: Commit,
  schema: string,
): readonly string[] {
  const texts: string[] = []
  if (results.size > 0) {
    const rows = [...results].map(([id, json]) => `('${id}',${literal(json)})`)
    // A result is left behind when somebody deletes the row of a done event, or changes its state, to run it again.
    texts.push(
      `insert into ${schema}.event_results (event_id, result) values ${rows.join()} on conflict (event_id) do update set result = excluded.result`,
    )
  }
  if (recovered.length > 0) {
    const ids = recovered.map((id) => `'${id}'`)
    texts.push(`delete from ${schema}.failed_events where event_id in (${ids.join()})`)
  }
  // Last: its locks are held until the end of the commit.
  texts.push(...flushTexts(schema, sends))
  return texts
}
