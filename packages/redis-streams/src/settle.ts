import type { Settlement } from '@onceward/core'
import {
  andThen,
  type DeadLetterPlace,
  type GuardPort,
  laterMs,
  longerMs,
  type MaybeAsync,
  type MayHold,
  type Pace,
  type Settle,
  SettleReport,
  settleBy,
  settleDeadLetter,
  type Verbs,
  waitMsOf,
} from '@onceward/core/adapter'
import type { Runtime } from '@onceward/core/ports'
import type { StreamApi } from './client.ts'
import { type Moved, placeOf } from './dead-letter.ts'
import type { Received } from './delivery.ts'
import { classifyError } from './errors.ts'
import type { Settings } from './options.ts'
import { Acks, OwnedEntries } from './pending.ts'

/** What settling needs. */
export interface SettleContext {
  readonly port: Pick<GuardPort, 'publishDeadLetter'>
  readonly runtime: Runtime
  readonly api: Pick<StreamApi, 'giveBack' | 'park'>
  readonly owned: OwnedEntries
  readonly acks: Pick<Acks, 'add'>
  readonly place: DeadLetterPlace
  readonly moved: Moved | undefined
  /** Longest wait of a held entry, ms. */
  readonly holdMs: number
  /** Whether one more entry may be held; in a drain and in a wrap none may. */
  readonly mayHold: MayHold
  readonly report: SettleReport<Received>
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
    ...{ port, runtime, api, moved },
    owned: new OwnedEntries({ api, runtime, logger, renewMs: settings.renewMs }),
    acks: new Acks(api, runtime),
    place: placeOf(api, settings, moved),
    holdMs: settings.holdMs,
    report: new SettleReport({
      logger,
      fieldsOf: ({ entry }) => ({ queue: entry.stream, id: entry.id }),
      describe: (error) => classifyError(error).text,
    }),
  }
}

/** Until when the entry is held before it runs again; undefined if it is settled. */
export type SettleAnswer = number | undefined

const pacedBy = ({ runtime }: SettleContext, { rounds }: Received): Pace => {
  return { runtime, rounds, busiestMs: 10_000 }
}

const VERBS: Verbs<SettleContext, Received, SettleAnswer> = {
  ack,
  defer: (context, received, settlement) => {
    const waitMs = waitMsOf(settlement, pacedBy(context, received))
    return settlement.reason === 'store-down'
      ? outage(context, received, waitMs)
      : wait(context, received, waitMs)
  },
  'dead-letter': deadLetter,
  abandon: (context, received, settlement) =>
    settlement.reason === 'closing'
      ? returnUnstarted(context, received)
      : wait(context, received, waitMsOf(settlement, pacedBy(context, received))),
}

/** Carries out a settlement. */
export const settle: Settle<SettleContext, Received, SettleAnswer> = settleBy(
  VERBS,
  (context, received, { settlement, error }) => {
    context.report.failed(received, settlement.kind, error)
    void context.owned.release(received)
    return undefined
  },
)

/** Lets other consumers claim an entry that was not started at once. */
export async function returnUnstarted(
  context: Pick<SettleContext, 'api' | 'owned' | 'report'>,
  received: Received,
): Promise<SettleAnswer> {
  const { stream, id } = received.entry
  try {
    await context.owned.release(received)
    await context.api.giveBack(stream, [id])
  } catch (error) {
    context.report.failed(received, 'give back', error)
  }
  return undefined
}

/** Without an async function, because every entry of a healthy stream is acked. */
function ack(context: SettleContext, received: Received): MaybeAsync<SettleAnswer> {
  return andThen(context.owned.release(received), () =>
    context.acks.add(received.entry).then((isOwned) => {
      if (!isOwned) context.report.refused(received, { verb: 'ack', reason: LOST })
      return undefined
    }),
  )
}

/** The event is recorded, so its new owner, if it has one, acks the entry as a copy. */
const LOST = 'this consumer no longer owns the entry'

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
  return context.mayHold('outage') ? hold(context, waitMs) : park(context, received, waitMs)
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
  if (!isOwned) context.report.refused(received, { verb: 'defer', reason: LOST })
  return undefined
}

/** Adds the dead letter and acks the entry, which without an inbox is one step. After a lost answer both are tried again. */
function deadLetter(
  context: SettleContext,
  received: Received,
  settlement: Settlement,
): Promise<SettleAnswer> {
  const isOver = (): boolean => context.moved?.has(received.entry) ?? false
  return settleDeadLetter(received, settlement, {
    ...{ ...context, isOver },
    over: () =>
      isOver() ? andThen(context.owned.release(received), () => undefined) : ack(context, received),
    again: (wasTried) => {
      const waitMs = wasTried
        ? laterMs(context.runtime, { leastMs: 5_000, mostMs: 10_000 })
        : longerMs(pacedBy(context, received))
      return wait(context, received, waitMs)
    },
  })
}
