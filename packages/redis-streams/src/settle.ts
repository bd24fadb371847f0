import type { Logger, Settlement } from '@onceward/core'
import {
  andThen,
  type DeadLetterPlace,
  type GuardPort,
  type MaybeAsync,
  type Settle,
  settleBy,
  type Verbs,
} from '@onceward/core/adapter'
import type { Runtime } from '@onceward/core/ports'
import type { StreamApi, StreamEntry } from './client.ts'
import { type Moved, placeOf } from './dead-letter.ts'
import type { Received } from './delivery.ts'
import { classifyError } from './errors.ts'
import type { Settings } from './options.ts'
import { Acks, OwnedEntries } from './pending.ts'

/** What settling needs. */
export interface SettleContext {
  readonly port: Pick<GuardPort, 'publishDeadLetter'>
  readonly runtime: Runtime
  readonly logger: Logger
  readonly api: Pick<StreamApi, 'giveBack' | 'park'>
  readonly owned: OwnedEntries
  readonly acks: Pick<Acks, 'add'>
  readonly place: DeadLetterPlace
  readonly moved: Moved | undefined
  /** Longest wait of a held entry, ms. */
  readonly holdMs: number
  /** Whether one more entry may be held; in a drain and in a wrap none may. */
  readonly mayHold: (why: 'short' | 'outage') => boolean
  /** Settlements that did not reach Redis; their entries return. */
  readonly counts: { settleFailures: number }
}

/** The context without `mayHold`, which those who know what is held add. */
export function createSettleContext(
  port: GuardPort,
  api: StreamApi,
  settings: Settings,
): Omit<SettleContext, 'mayHold'> {
  const { runtime, logger } = port
  const moved: Moved | undefined = port.settings.hasInbox ? undefined : new WeakSet()
  return {
    ...{ port, runtime, logger, api, moved },
    owned: new OwnedEntries({ api, runtime, logger, renewMs: settings.renewMs }),
    acks: new Acks(api, runtime),
    place: placeOf(api, settings, moved),
    holdMs: settings.holdMs,
    counts: { settleFailures: 0 },
  }
}

/** Until when the entry is held before it runs again; undefined if it is settled. */
export type SettleAnswer = number | undefined

const SOON_MS = 1_000
const LONGEST_STEP_MS = 10_000

const VERBS: Verbs<SettleContext, Received, SettleAnswer> = {
  ack,
  defer: (context, received, { reason, until }) => {
    const waitMs = Math.max(0, until - context.runtime.now())
    if (reason === 'store-down') return outage(context, received, waitMs)
    return wait(
      context,
      received,
      reason === 'failed' ? waitMs : longerMs(context, received, waitMs),
    )
  },
  'dead-letter': deadLetter,
  abandon: (context, received, { reason }) =>
    // The lease was lost, the deadline passed, or the commit is unknown: the next claim of this consumer finds out.
    reason === 'closing'
      ? returnUnstarted(context, received)
      : wait(context, received, longerMs(context, received, SOON_MS)),
}

/** Carries out a settlement. */
export const settle: Settle<SettleContext, Received, SettleAnswer> = settleBy(
  VERBS,
  (context, received, { settlement, error }) => {
    refused(context, received, { verb: settlement.kind, reason: classifyError(error).text })
    void context.owned.release(received)
    return undefined
  },
)

/** Lets other consumers claim an entry that was not started at once. */
export async function returnUnstarted(
  context: Pick<SettleContext, 'api' | 'owned' | 'logger' | 'counts'>,
  received: Received,
): Promise<SettleAnswer> {
  const { stream, id } = received.entry
  try {
    await context.owned.release(received)
    await context.api.giveBack(stream, [id])
  } catch (error) {
    refused(context, received, { verb: 'give back', reason: classifyError(error).text })
  }
  return undefined
}

/** Without an async function, because every entry of a healthy stream is acked. */
function ack(context: SettleContext, received: Received): MaybeAsync<SettleAnswer> {
  return andThen(context.owned.release(received), () =>
    context.acks.add(received.entry).then((isOwned) => {
      if (!isOwned) refused(context, received, { verb: 'ack', reason: LOST })
      return undefined
    }),
  )
}

/** The event is recorded, so its new owner, if it has one, acks the entry as a copy. */
const LOST = 'this consumer no longer owns the entry'

/** Doubles the wait each time an event is still running elsewhere. */
function longerMs({ runtime }: SettleContext, { rounds }: Received, waitMs: number): number {
  const leastMs = Math.min(SOON_MS * 2 ** rounds, LONGEST_STEP_MS)
  return Math.max(waitMs, leastMs) * (1 + runtime.random() * 0.2)
}

/** Holds the entry if the wait is short and there is room; otherwise it waits in the set beside the stream. */
function wait(
  context: SettleContext,
  received: Received,
  waitMs: number,
): MaybeAsync<SettleAnswer> {
  if (waitMs <= context.holdMs && context.mayHold('short')) return hold(context, waitMs)
  return park(context, received, waitMs)
}

/** While the store is down entries are held, so that what is in hand is the first to run again. */
function outage(
  context: SettleContext,
  received: Received,
  waitMs: number,
): MaybeAsync<SettleAnswer> {
  const spreadMs = waitMs + context.runtime.random() * SOON_MS
  if (context.mayHold('outage')) return hold(context, spreadMs)
  return park(context, received, spreadMs)
}

const hold = ({ runtime }: SettleContext, waitMs: number): SettleAnswer =>
  runtime.monotonic() + waitMs

async function park(
  context: SettleContext,
  received: Received,
  afterMs: number,
): Promise<SettleAnswer> {
  const { entry, delivery } = received
  const { stream, id } = entry
  await context.owned.release(received)
  const parking = { id, afterMs, deliveryCount: delivery.deliveryCount ?? 1 }
  const isOwned = await context.api.park(stream, parking)
  if (!isOwned) refused(context, received, { verb: 'defer', reason: LOST })
  return undefined
}

/** Adds the dead letter and acks the entry, which without an inbox is one step. After a lost answer both are tried again. */
async function deadLetter(
  context: SettleContext,
  received: Received,
  settlement: Settlement,
): Promise<SettleAnswer> {
  const { place, port, moved } = context
  if (place.kind !== 'publish') return ack(context, received)
  const answer = await port.publishDeadLetter(settlement, place.publish)
  if (moved?.has(received.entry)) {
    await context.owned.release(received)
    return undefined
  }
  if (answer.kind !== 'retry') return ack(context, received)
  if (answer.error !== undefined) notPublished(context, received.entry, answer.error)
  const waitMs =
    answer.error === undefined
      ? longerMs(context, received, SOON_MS)
      : 5_000 + context.runtime.random() * 5_000
  return wait(context, received, waitMs)
}

interface Refusal {
  readonly verb: string
  readonly reason: string
}

function refused(
  { counts, logger }: Pick<SettleContext, 'counts' | 'logger'>,
  { entry }: Received,
  why: Refusal,
): void {
  counts.settleFailures += 1
  const fields = { queue: entry.stream, id: entry.id, ...why }
  logger.warn(fields, 'a settlement was not carried out; the entry will return')
}

function notPublished({ logger }: SettleContext, entry: StreamEntry, error: unknown): void {
  const fields = { queue: entry.stream, id: entry.id, reason: classifyError(error).text }
  logger.error(fields, 'a dead letter could not be added; it will be tried again')
}
