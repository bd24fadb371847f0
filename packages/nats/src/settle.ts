import {
  busyMs,
  type DeadLetterPlace,
  type GuardPort,
  laterMs,
  type MayHold,
  type Pace,
  type Settle,
  SettleReport,
  settleBy,
  settleDeadLetter,
  type Verbs,
  type WaitRange,
  waitMsOf,
} from '@onceward/core/adapter'
import type { Runtime } from '@onceward/core/ports'
import type { NatsApi, Terms, Verb } from './client.ts'
import { placeOf } from './dead-letter.ts'
import type { Received } from './delivery.ts'
import { classifyError } from './errors.ts'
import type { Settings } from './options.ts'
import { OwnedMessages } from './owned.ts'

/** What settling needs. */
export interface SettleContext {
  readonly port: Pick<GuardPort, 'publishDeadLetter'>
  readonly runtime: Runtime
  readonly api: Pick<NatsApi, 'confirm' | 'connected' | 'say'>
  readonly owned: OwnedMessages
  readonly place: DeadLetterPlace
  /** Whether one more message may be held; in a drain and in a wrap none may. */
  readonly mayHold: MayHold
  readonly report: SettleReport<Received>
}

/** The context without `mayHold`, which those who know what is held add. */
export function createSettleContext(
  port: GuardPort,
  api: NatsApi,
  { settings, terms }: { readonly settings: Settings; readonly terms: Terms },
): Omit<SettleContext, 'mayHold'> {
  const { runtime, logger } = port
  const queue = settings.stream
  return {
    ...{ port, runtime, api },
    owned: new OwnedMessages({ api, runtime, logger, queue, terms }),
    place: placeOf(api, settings),
    report: new SettleReport({
      logger,
      fieldsOf: ({ message }) => ({ queue, sequence: message.info.streamSequence }),
      describe: (error) => classifyError(error).text,
    }),
  }
}

/** Until when the message is held before it runs again; undefined if it is not. */
export type SettleAnswer = number | undefined

/** When a dead message whose letter was not published is delivered again. */
const DEAD: WaitRange = { leastMs: 5_000, mostMs: 30_000 }
/** How long a settlement waits for a connection that is interrupted. */
const RECONNECT_MS = 10_000
/** An interrupted connection and a message of another consumer alike: the row answers when the message comes again. */
const LATE = 'the server may have given the message to another consumer'

/** A message that waits at the server has no memory here but its count. */
const pacedBy = (
  { runtime }: SettleContext,
  { delivery: { deliveryCount = 1 } }: Received,
): Pace => {
  return { runtime, rounds: deliveryCount, busiestMs: 10_000 }
}

const VERBS: Verbs<SettleContext, Received, SettleAnswer> = {
  ack: (context, received) => say(context, received, '+ACK'),
  defer: (context, received, settlement) => {
    const waitMs = waitMsOf(settlement, pacedBy(context, received))
    // Each delivery may count towards `max_deliver`, so what is in hand waits for the store here, and is renewed.
    const isHeld = settlement.reason === 'store-down' && context.mayHold('outage')
    return isHeld ? context.runtime.monotonic() + waitMs : say(context, received, later(waitMs))
  },
  'dead-letter': (context, received, settlement) =>
    settleDeadLetter(received, settlement, {
      ...context,
      over: () => say(context, received, '+TERM'),
      again: (wasTried) => {
        const waitMs = wasTried
          ? laterMs(context.runtime, DEAD)
          : busyMs(pacedBy(context, received))
        return say(context, received, later(waitMs))
      },
    }),
  abandon: (context, received, settlement) =>
    settlement.reason === 'closing'
      ? returnUnstarted(context, received)
      : say(context, received, later(waitMsOf(settlement, pacedBy(context, received)))),
}

/** Carries out a settlement. */
export const settle: Settle<SettleContext, Received, SettleAnswer> = settleBy(
  VERBS,
  (context, received, { settlement, error }) => {
    context.report.failed(received, settlement.kind, error)
    context.owned.release(received)
    return undefined
  },
)

/** Lets other consumers have a message that was not started at once. */
export async function returnUnstarted(
  context: Pick<SettleContext, 'api' | 'owned' | 'report' | 'runtime'>,
  received: Received,
): Promise<SettleAnswer> {
  try {
    return await say(context, received, '-NAK')
  } catch (error) {
    context.report.failed(received, 'give back', error)
    return undefined
  }
}

/** Nanoseconds; without a delay the server would deliver it at once. */
const later = (waitMs: number): Verb =>
  `-NAK ${JSON.stringify({ delay: Math.max(1, Math.round(waitMs)) * 1_000_000 })}`

/**
 * Says it as long as the message is this consumer's, again if the connection was lost before the server had it.
 *
 * @throws the client's error, after which the message returns when its `ack_wait` is over.
 */
async function say(
  { api, owned, report, runtime }: Pick<SettleContext, 'api' | 'owned' | 'report' | 'runtime'>,
  received: Received,
  verb: Verb,
): Promise<SettleAnswer> {
  owned.release(received)
  const { claim } = received
  const giveUpMs = runtime.monotonic() + RECONNECT_MS
  for (;;) {
    const nowMs = runtime.monotonic()
    const isUp = await api.connected(Math.min(claim.untilMs, giveUpMs) - nowMs)
    if (!isUp || runtime.monotonic() >= claim.untilMs) {
      report.refused(received, { verb, reason: LATE })
      return undefined
    }
    api.say(claim.reply, verb)
    try {
      await api.confirm()
      return undefined
    } catch (error) {
      const isOver = runtime.monotonic() >= giveUpMs
      if (isOver || classifyError(error).kind !== 'network') throw error
    }
  }
}
