import type { BrokerName } from '../brokers/index.ts'
import type { AccountingAddress } from './outbox/accounting.ts'

/** What the parent gives a worker. */
export interface WorkerSettings {
  readonly databaseUrl: string
  readonly broker: BrokerName
  /** Where the queue is, as {@link DemoQueue.address} says it. */
  readonly address: string
  /** With `--redis`: where leases are. */
  readonly redisUrl?: string | undefined
  /** With `--outbox`: where payments are announced. */
  readonly accounting?: AccountingAddress | undefined
}

export const SETTINGS_VARIABLE = 'ONCEWARD_DEMO'

export function settings(): WorkerSettings {
  // Ends a worker whose parent process is gone.
  process.on('disconnect', () => process.exit())
  return JSON.parse(process.env[SETTINGS_VARIABLE] ?? '')
}
