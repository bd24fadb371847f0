import {
  type DeadLetterPlace,
  type GuardPort,
  laterMs,
  type Settle,
  SettleReport,
  settleBy,
  settleDeadLetter,
  type Verbs,
  type WaitRange,
} from '@onceward/core/adapter'
import type { Runtime } from '@onceward/core/ports'
import { placeOf } from './dead-letter.ts'
import type { KafkaRecord } from './delivery.ts'
import { classifyError } from './errors.ts'
import type { Settings } from './options.ts'

/** What settling needs. */
export interface SettleContext {
  readonly port: Pick<GuardPort, 'publishDeadLetter'>
  readonly runtime: Runtime
  readonly place: DeadLetterPlace
  readonly report: SettleReport<KafkaRecord>
}

export function createSettleContext(port: GuardPort, settings: Settings): SettleContext {
  const { runtime, logger } = port
  const report = new SettleReport<KafkaRecord>({
    logger,
    fieldsOf: ({ topic, partition, message: { offset } }) => ({ topic, partition, offset }),
    describe: (error) => classifyError(error).text,
  })
  return { port, runtime, place: placeOf(settings), report }
}

/**
 * The state of an unsettled record. Kafka cannot settle a single record: the committed offset of its partition passes
 * settled records and stops at the first one that is not.
 */
export type SettleAnswer =
  | { readonly kind: 'settled' }
  /** The record runs again after this time, milliseconds; the offset waits. */
  | { readonly kind: 'later'; readonly waitMs: number }
  /** The record runs again as soon as the store is back. */
  | { readonly kind: 'store-down' }
  /** The record was not started and will not be here: the next member that gets the partition reads it. */
  | { readonly kind: 'left' }

const SETTLED: SettleAnswer = { kind: 'settled' }
/** Gives the other run of the event some time to end. */
const AGAIN_MS = 1_000

const VERBS: Verbs<SettleContext, KafkaRecord, SettleAnswer> = {
  ack: () => SETTLED,
  defer: ({ runtime }, _record, { reason, until }) =>
    reason === 'store-down'
      ? { kind: 'store-down' }
      : { kind: 'later', waitMs: Math.max(0, until - runtime.now()) },
  'dead-letter': (context, record, settlement) => {
    const again = () => later(context)
    return settleDeadLetter(record, settlement, { ...context, over: () => SETTLED, again })
  },
  // The lease was lost or the commit is unknown. The next run finds out.
  abandon: ({ runtime }, _record, { reason }) =>
    reason === 'closing'
      ? { kind: 'left' }
      : { kind: 'later', waitMs: AGAIN_MS * (1 + runtime.random()) },
}

/** Carries out a settlement. */
export const settle: Settle<SettleContext, KafkaRecord, SettleAnswer> = settleBy(
  VERBS,
  (context, record, { error }) => {
    context.report.notPublished(record, error)
    return later(context)
  },
)

/** When a dead letter is tried again: soon, because its partition waits. */
const AGAIN: WaitRange = { leastMs: 1_000, mostMs: 5_000 }

const later = ({ runtime }: SettleContext): SettleAnswer => ({
  ...{ kind: 'later', waitMs: laterMs(runtime, AGAIN) },
})
