import type { BrokerName } from './broker-address.ts'

/** Something that an operator should know. */
export interface Finding {
  /** `error`: messages are lost, run twice or are not processed. `warning`: they may. */
  readonly severity: 'error' | 'warning'
  readonly about: 'postgres' | 'tables' | 'consumers' | 'redis' | BrokerName
  readonly finding: string
  /** One sentence that says what to do. */
  readonly remedy: string
  /** Which consumer it is about. */
  readonly consumer?: string
  /** What of the consumer it names, or that it names the outbox. */
  readonly see?: 'dead-letters' | 'waiting' | 'outbox'
}

/** The finding, if it is so. */
export const when = (isSo: boolean, finding: Finding): readonly Finding[] => (isSo ? [finding] : [])
