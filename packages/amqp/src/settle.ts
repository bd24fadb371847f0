import type { Delivery, Logger, Publish, Runtime, Settlement } from '@onceward/core'
import type { GuardPort } from '@onceward/core/adapter'
import type { ConsumeMessage } from 'amqplib'
import type { Line, Publisher } from './clients/amqplib.ts'
import { copyOptions, deferralHeader, deferralsOf } from './delivery.ts'
import { troubleOf } from './errors.ts'
import type { Settings } from './options.ts'
import { levelFor, levelQueue } from './topology.ts'

/** A message in hand: unacked, on the channel that brought it. Instants are milliseconds on the monotonic clock. */
export interface Received {
  /** As it came: its tag is what is settled. */
  readonly message: ConsumeMessage
  readonly delivery: Delivery
  readonly line: Line
  readonly receivedAtMs: number
  /** How often it was held and handed over again. */
  readonly rounds: number
}

/** Where dead messages go. */
export type DeadLetterPlace =
  | { readonly kind: 'target'; readonly publish: Publish }
  /** The queue's own dead-letter exchange takes what is rejected. */
  | { readonly kind: 'dlx' }
  /** `failed_events` has the message: nothing is to publish. */
  | { readonly kind: 'record' }

/** What settling needs. */
export interface SettleContext {
  readonly port: Pick<GuardPort, 'publishDeadLetter'>
  readonly runtime: Runtime
  readonly logger: Logger
  readonly settings: Pick<Settings, 'queue' | 'levelsMs' | 'holdMs' | 'oldestMs'>
  readonly publisher: Pick<Publisher, 'publish'>
  readonly place: DeadLetterPlace
  /** Sees to it that the delay queues are there. */
  readonly levels: () => Promise<void>
  /** Whether one more message may wait in hand; none may in a drain. */
  readonly mayHold: (why: 'short' | 'outage') => boolean
  /** Resolves when a message that is given back does not return to this consumer at once; false when it would. */
  readonly quiet: () => Promise<boolean>
  /** Counts what the broker was not told. */
  readonly onRefused: () => void
}

/**
 * Until when the message stays in hand, to be handed over again then; undefined when it is settled, or gone with its
 * channel: then the broker delivers it again, and the store decides.
 */
export type HeldUntil = number | undefined

type Verb<Kind extends Settlement['kind']> = (
  context: SettleContext,
  received: Received,
  settlement: Extract<Settlement, { kind: Kind }>,
) => HeldUntil | Promise<HeldUntil>

const VERBS = {
  ack: (context, received) => {
    told(context, received, received.line.ack(received.message))
    return undefined
  },
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
    // Lost, late or unknown: whoever claims it next finds out, and here that is us.
    reason === 'closing'
      ? giveBack(context, received)
      : wait(context, received, longerMs(context, received, SOON_MS)),
} satisfies { [Kind in Settlement['kind']]: Verb<Kind> }

/**
 * Carries a settlement out. Never rejects: the stores know already, so a failed call costs a redelivery. What needs no
 * answer of the broker answers at once, so that the next one in line sees how much is held.
 */
export function settle(
  context: SettleContext,
  received: Received,
  settlement: Settlement,
): HeldUntil | Promise<HeldUntil> {
  const verb = VERBS[settlement.kind] as Verb<Settlement['kind']>
  const failed = (error: unknown): HeldUntil => {
    refused(context, received, troubleOf(error).text)
    return keep(context, received)
  }
  const answer = verb(context, received, settlement)
  return answer instanceof Promise ? answer.catch(failed) : answer
}

/** Back to the queue at once: it was not begun. */
export async function giveBack(context: SettleContext, received: Received): Promise<HeldUntil> {
  // Unsettled it goes back when its channel closes; given back now it would come again and again.
  if (!(await context.quiet())) return undefined
  told(context, received, received.line.nack(received.message, true))
  return undefined
}

const SOON_MS = 1_000

/** An event that is still busy when it is asked for again is asked for half as often. */
function longerMs(
  { settings, runtime }: SettleContext,
  { rounds }: Received,
  waitMs: number,
): number {
  const leastMs = Math.min(SOON_MS * 2 ** rounds, settings.holdMs)
  return Math.max(waitMs, leastMs) * (1 + runtime.random() * 0.2)
}

/** A dead message that must be seen again, or one that could not be published: soon, but no hot loop. */
function keep(context: SettleContext, received: Received): HeldUntil {
  const laterMs = 5_000 + context.runtime.random() * 25_000
  if (!isTooOld(context, received, laterMs)) return hold(context, received, laterMs)
  // Nowhere else to go: another delivery costs less than the channel with all that is in hand.
  return told(context, received, received.line.nack(received.message, true))
}

/** In hand where that is short and there is room, else in a delay queue. */
function wait(
  context: SettleContext,
  received: Received,
  waitMs: number,
): HeldUntil | Promise<HeldUntil> {
  const isShort = waitMs <= context.settings.holdMs && !isTooOld(context, received, waitMs)
  if (isShort && context.mayHold('short')) return hold(context, received, waitMs)
  return postpone(context, received, waitMs)
}

/** Kept in hand: every delivery counts towards a delivery limit, and nobody could process it elsewhere either. */
function outage(
  context: SettleContext,
  received: Received,
  waitMs: number,
): HeldUntil | Promise<HeldUntil> {
  if (!context.mayHold('outage')) return giveBack(context, received)
  const spreadMs = waitMs + context.runtime.random() * SOON_MS
  if (isTooOld(context, received, spreadMs)) return postpone(context, received, spreadMs)
  return hold(context, received, spreadMs)
}

/** Soon the server would take it for stuck, and close the channel under all the others. */
function isTooOld(
  { runtime, settings }: SettleContext,
  received: Received,
  waitMs: number,
): boolean {
  return runtime.monotonic() + waitMs - received.receivedAtMs > settings.oldestMs
}

function hold(context: SettleContext, received: Received, waitMs: number): HeldUntil {
  return received.line.isOpen ? context.runtime.monotonic() + waitMs : undefined
}

/**
 * A confirmed copy in the delay queue, and only then the ack (A2, A10): after a crash between the two both exist, and
 * one wins. Never a requeue, which would come back at once (brokers.md §0.9).
 */
async function postpone(
  context: SettleContext,
  received: Received,
  waitMs: number,
): Promise<HeldUntil> {
  const { line, message, delivery } = received
  if (!line.isOpen) return told(context, received, false)
  const { queue, levelsMs } = context.settings
  const routingKey = levelQueue(queue, levelFor(levelsMs, waitMs))
  const original = delivery.raw as ConsumeMessage
  try {
    await context.levels()
    await context.publisher.publish({
      exchange: '',
      routingKey,
      content: message.content,
      options: copyOptions(original, deferralHeader(deferralsOf(message) + 1)),
      remedy: `declare '${routingKey}' with assertRetryTopology() of @onceward/amqp, or start the consumer again`,
    })
  } catch (error) {
    const fields = { queue, messageId: messageIdOf(received), trouble: troubleOf(error).text }
    context.logger.error(
      fields,
      'a message could not be deferred; it is kept in hand and tried again',
    )
    return keep(context, received)
  }
  return told(context, received, line.ack(message))
}

/** The record is durable. It is published before the original goes, so a crash between publishes it again. */
async function deadLetter(
  context: SettleContext,
  received: Received,
  settlement: Settlement,
): Promise<HeldUntil> {
  const { place, port } = context
  const { line, message } = received
  if (place.kind === 'dlx') return told(context, received, line.nack(message, false))
  if (place.kind === 'target') {
    const answer = await port.publishDeadLetter(settlement, place.publish)
    if (answer.kind === 'retry') {
      // Without an error another process is publishing it right now.
      if (answer.error === undefined) {
        return wait(context, received, longerMs(context, received, SOON_MS))
      }
      notPublished(context, received, answer.error)
      return keep(context, received)
    }
  }
  return told(context, received, line.ack(message))
}

function told(context: SettleContext, received: Received, wasTold: boolean): undefined {
  if (!wasTold) refused(context, received, 'its channel is closed')
}

const messageIdOf = ({ message }: Received): unknown => message.properties.messageId

function refused(context: SettleContext, received: Received, trouble: string): void {
  context.onRefused()
  const fields = { queue: context.settings.queue, messageId: messageIdOf(received), trouble }
  context.logger.warn(fields, 'a settlement was not carried out; the message will return')
}

function notPublished(context: SettleContext, received: Received, error: unknown): void {
  const trouble = troubleOf(error).text
  const fields = { queue: context.settings.queue, messageId: messageIdOf(received), trouble }
  context.logger.error(fields, 'a dead letter could not be published; it will be tried again')
}
