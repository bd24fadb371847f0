/** Settings of the session that a transaction of onceward changes, as `current_setting` shows them before. */
export interface SessionSettings {
  readonly lockTimeout: string
  readonly statementTimeout: string
  readonly idleTimeout: string
  readonly synchronousCommit: string
}

/** A commit of onceward is on disk when the server answers, even if `synchronous_commit` is off. */
export const DURABLE = 'set local synchronous_commit = on'

/** As {@link DURABLE}, if the setting in force is not known. */
export const DURABLE_IF_OFF: string = `select set_config('synchronous_commit', 'on', true) where current_setting('synchronous_commit') = 'off'`

const UNIT_MS = { us: 0.001, ms: 1, s: 1_000, min: 60_000, h: 3_600_000, d: 86_400_000 } as const
const TIME = /^(\d+)(us|ms|s|min|h|d)?$/

/** Milliseconds of a time setting as `current_setting` shows it; 0 is no limit. */
export function settingMs(setting: string): number | undefined {
  const [, digits, unit = 'ms'] = TIME.exec(setting) ?? []
  if (digits === undefined) return undefined
  return Number(digits) * UNIT_MS[unit as keyof typeof UNIT_MS]
}

/** Whether the setting is a limit that ends within the budget; 0 is no limit. */
export function isAtMost(setting: string, budgetMs: number): boolean {
  const ms = settingMs(setting) ?? 0
  return ms >= 1 && ms <= budgetMs
}
