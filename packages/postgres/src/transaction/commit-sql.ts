import type { Commit } from '@onceward/core'
import {
  DURABLE_IF_OFF,
  durableText,
  ownIdentity,
  ownSettings,
  type SessionSettings,
} from '../driver/session-settings.ts'
import { literal } from '../driver/sql-literal.ts'

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
 * COMMIT and the statements that travel with it. Those of onceward run as the user that began the transaction, under
 * settings of their own. A handler may turn durability up, but not off.
 */
export function commitTexts(commit: Commit, target: CommitTarget): readonly string[] {
  const { settings, hasChangedSettings, budgetMs } = target
  const storing = storingTexts(commit, target.schema)
  const stores = storing.length > 0
  return [
    ...(stores || hasChangedSettings ? ownIdentity(settings) : []),
    ...(stores ? ownSettings(budgetMs) : []),
    ...storing,
    hasChangedSettings ? DURABLE_IF_OFF : durableText(settings),
    'commit',
  ]
}

function storingTexts({ results, recovered }: Commit, schema: string): readonly string[] {
  const texts: string[] = []
  if (results.size > 0) {
    const rows = [...results].map(([id, json]) => `('${id}',${literal(json)})`)
    texts.push(`insert into ${schema}.event_results (event_id, result) values ${rows.join()}`)
  }
  if (recovered.length > 0) {
    const ids = recovered.map((id) => `'${id}'`)
    texts.push(`delete from ${schema}.failed_events where event_id in (${ids.join()})`)
  }
  return texts
}
