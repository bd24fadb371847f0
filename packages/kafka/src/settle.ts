import type { Logger, Settlement } from '@onceward/core'
import {
  type DeadLetterPlace,
  type GuardPort,
  type Settle,
  settleBy,
  type Verbs,
} from '@onceward/core/adapter'
import type { Runtime } from '@onceward/core/ports'
import { placeOf } from './dead-letter.ts'
import type { KafkaRecord } from './delivery.ts'
import type { Settings } from './options.ts'

/** What settling needs. */
export interface SettleContext {
  readonly port: Pick<GuardPort, 'publishDeadLetter'>
  readonly runtime: Runtime
  readonly logger: Logger
  readonly place: DeadLetterPlace
}

export function createSettleContext(port: GuardPort, settings: Settings): SettleContext {
  const { runtime, logger } = port
  return { port, runtime, logger, place: placeOf(settings) }
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
  'dead-letter': deadLetter,
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
    notPublished(context, record, error)
    return { kind: 'later', waitMs: laterMs(context) }
  },
)

/** Publishes the dead letter before the offset passes its record. A crash between the two publishes it again. */
async function deadLetter(
  context: SettleContext,
  record: KafkaRecord,
  settlement: Extract<Settlement, { kind: 'dead-letter' }>,
): Promise<SettleAnswer> {
  const { place, port } = context
  if (place.kind !== 'publish') return SETTLED
  const answer = await port.publishDeadLetter(settlement, place.publish)
  if (answer.kind !== 'retry') return SETTLED
  if (answer.error !== undefined) notPublished(context, record, answer.error)
  return { kind: 'later', waitMs: laterMs(context) }
}

/** When a dead letter is tried again: soon, because its partition waits, but not in a hot loop. */
const laterMs = ({ runtime }: SettleContext): number => 1_000 + runtime.random() * 4_000

function notPublished({ logger }: SettleContext, record: KafkaRecord, error: unknown): void {
  const { topic, partition, message } = record
  const fields = { topic, partition, offset: message.offset, err: error }
  logger.error(fields, 'a dead letter could not be published; it will be tried again')
}
