/** What the parent gives a server. */
export interface ServerSettings {
  readonly databaseUrl: string
  /** The same after each kill, so that clients find the next process. */
  readonly port: number
}

export const SETTINGS_VARIABLE = 'ONCEWARD_DEMO_HTTP'

export function settings(): ServerSettings {
  // Ends a server whose parent process is gone.
  process.on('disconnect', () => process.exit())
  return JSON.parse(process.env[SETTINGS_VARIABLE] ?? '')
}
