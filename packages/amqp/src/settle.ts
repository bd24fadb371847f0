import { setTimeout as pause } from 'node:timers/promises'
import type { Logger, Settlement } from '@onceward/core'
import {
  type DeadLetterPlace,
  type GuardPort,
  hasMethod,
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
import { type Runtime, systemRuntime } from '@onceward/core/ports'
import type { ConsumeMessage } from 'amqplib'
import type { AmqpChannel, AmqpConfirmChannel } from './client.ts'
import type { DelayQueues } from './clients/delay-queues.ts'
import { Publisher } from './clients/publisher.ts'
import { placeOf, sentByOwnKey } from './dead-letter.ts'
import {
  copyOptions,
  deferralHeaders,
  deferralsOf,
  fromAmqpMessage,
  queueOf,
  type Received,
} from './delivery.ts'
import { classifyError } from './errors.ts'
import { DEFAULTS, type Settings } from './options.ts'
import { confirmingBeside, levelFor, levelQueue } from './topology.ts'

/** What settling needs. */
export interface SettleContext {
  readonly port: Pick<GuardPort, 'publishDeadLetter'>
  readonly runtime: Runtime
  readonly logger: Logger
  readonly settings: Pick<Settings, 'queue' | 'levelsMs' | 'holdMs' | 'oldestMs'>
  readonly publisher: Pick<Publisher, 'publish'>
  readonly place: DeadLetterPlace
  /** The dead-letter exchange of the queue, if a dead message is routed by its own key. */
  readonly rejectsTo: () => string | undefined
  readonly delayQueues: Pick<DelayQueues, 'ensure' | 'succeeded' | 'failed'>
  /** Whether one more message may be held; in a drain none may. */
  readonly mayHold: MayHold
  /** Resolves when a message that is given back goes to other consumers; false if it would come back to this one. */
  readonly stopDeliveries: () => Promise<boolean>
  readonly report: SettleReport<Received>
}

interface ContextParts extends Pick<SettleContext, 'delayQueues' | 'rejectsTo'> {
  readonly port: GuardPort
  readonly settings: Settings
  readonly publisher: Publisher
}

/** The context without what depends on which messages are held and where they come from: the dispatcher adds that. */
export function createSettleContext(
  parts: ContextParts,
): Omit<SettleContext, 'mayHold' | 'stopDeliveries'> {
  const { port, settings, publisher } = parts
  const { runtime, logger } = port
  const place = placeOf(publisher, settings, port.settings.hasInbox)
  const report = new SettleReport<Received>({
    logger,
    fieldsOf: (received) => ({ queue: settings.queue, deliveryTag: tagOf(received) }),
    describe: (error) => classifyError(error).text,
  })
  return { ...parts, runtime, logger, place, report }
}

/** Until when the message is held before it runs again; undefined if it is settled. */
export type SettleAnswer = number | undefined

const VERBS: Verbs<SettleContext, Received, SettleAnswer> = {
  ack: (context, received) => {
    told(context, received, 'ack', received.channel.ack(received.message))
    return undefined
  },
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
    return keep(context, received)
  },
)

/** Returns a message that was not started to the queue at once. */
export async function returnUnstarted(
  context: Pick<SettleContext, 'report' | 'stopDeliveries'>,
  received: Received,
): Promise<undefined> {
  // Left unsettled, the message returns when its channel closes. Given back now, it would come again and again.
  if (!(await context.stopDeliveries())) return undefined
  requeue(context, received)
  return undefined
}

/** Returns a message that has waited for too long; it may come again. */
export function requeue(context: Pick<SettleContext, 'report'>, received: Received): void {
  told(context, received, 'give back', received.channel.nack(received.message, true))
}

const SOON_MS = 1_000

const pacedBy = ({ runtime, settings }: SettleContext, { rounds }: Received): Pace => {
  return { runtime, rounds, busiestMs: settings.holdMs }
}

/** Holds a dead message, or one that could not be published, and tries again: soon, but not in a hot loop. */
function keep(context: SettleContext, received: Received): SettleAnswer {
  const waitMs = laterMs(context.runtime, { leastMs: 5_000, mostMs: 30_000 })
  if (!isTooOld(context, received, waitMs)) return hold(context, waitMs)
  // No other place is left: one redelivery costs less than losing the channel with all its unsettled messages.
  requeue(context, received)
  return undefined
}

/** Holds the message if the wait is short and there is room; otherwise it waits in a delay queue. */
function wait(
  context: SettleContext,
  received: Received,
  waitMs: number,
): MaybeAsync<SettleAnswer> {
  const isShort = waitMs <= context.settings.holdMs && !isTooOld(context, received, waitMs)
  if (isShort && context.mayHold('short')) return hold(context, waitMs)
  return postpone(context, received, waitMs)
}

/** While the store is down, messages are held: each redelivery counts towards a delivery limit and gains nothing. */
function outage(
  context: SettleContext,
  received: Received,
  waitMs: number,
): MaybeAsync<SettleAnswer> {
  if (!context.mayHold('outage')) return returnUnstarted(context, received)
  if (isTooOld(context, received, waitMs)) return postpone(context, received, waitMs)
  return hold(context, waitMs)
}

/** Whether the server's consumer timeout could close the channel because of this message if it ran then. */
function isTooOld(
  { runtime, settings }: SettleContext,
  received: Received,
  waitMs: number,
): boolean {
  return runtime.monotonic() + waitMs - received.receivedAtMs > settings.oldestMs
}

const hold = ({ runtime }: SettleContext, waitMs: number): SettleAnswer =>
  runtime.monotonic() + waitMs

/**
 * Publishes a copy to the delay queue and acks only once it is confirmed (A2, A10). After a crash between the two both
 * exist, and one of them wins the claim. A requeue would come back at once (brokers.md §0.9).
 */
async function postpone(
  context: SettleContext,
  received: Received,
  waitMs: number,
): Promise<SettleAnswer> {
  const { channel, message, delivery } = received
  if (!channel.isOpen) return told(context, received, 'defer', false)
  const { queue, levelsMs } = context.settings
  const { delayQueues } = context
  const routingKey = levelQueue(queue, levelFor(levelsMs, waitMs))
  const original = delivery.raw as ConsumeMessage
  try {
    await delayQueues.ensure()
    await context.publisher.publish({
      kind: 'deferral',
      of: message,
      exchange: '',
      routingKey,
      content: message.content,
      options: copyOptions(original, deferralHeaders(message, original)),
      remedy: `it is declared again before the next try, or declare '${routingKey}' with assertRetryTopology() of @onceward/amqp`,
    })
  } catch (error) {
    const { text } = classifyError(error)
    const fields = { queue, deliveryTag: tagOf(received), reason: text }
    context.logger.error(fields, 'a message could not be deferred; it is held and tried again')
    const untilMs = keep(context, received)
    delayQueues.failed(error, text, untilMs ?? context.runtime.monotonic())
    return untilMs
  }
  delayQueues.succeeded()
  return told(context, received, 'defer', channel.ack(message))
}

/** A crash after the dead letter and before the ack publishes it again. */
async function deadLetter(
  context: SettleContext,
  received: Received,
  settlement: Settlement,
): Promise<SettleAnswer> {
  const { place, publisher } = context
  const { channel, message } = received
  const ended = (wasTold: boolean) => told(context, received, 'dead-letter', wasTold)
  if (place.kind === 'broker') {
    const isSent = await sentByOwnKey(publisher, context.rejectsTo(), received)
    return ended(isSent ? channel.ack(message) : channel.nack(message, false))
  }
  return settleDeadLetter(received, settlement, {
    ...context,
    over: () => ended(channel.ack(message)),
    again: (wasTried) =>
      wasTried
        ? keep(context, received)
        : wait(context, received, longerMs(pacedBy(context, received))),
  })
}

/** @param wasTold - False if the channel was closed before. */
function told(
  context: Pick<SettleContext, 'report'>,
  received: Received,
  verb: string,
  wasTold: boolean,
): undefined {
  if (!wasTold) context.report.refused(received, { verb, reason: 'its channel is closed' })
}

/** As the broker numbers it. The id that its publisher gave it may be the event key, which logs have only as a hash. */
const tagOf = ({ message }: Received): number => message.fields.deliveryTag

/** Longest wait for a message that is not due, ms: RabbitMQ takes a message back after half an hour by default. */
const LONGEST_WAIT_MS = 600_000
/** While the store is down, a message that is given back waits so much longer: its queue may count each return. */
const OUTAGE_MS = 30_000

/**
 * Settles a message whose consumer a framework owns, such as a NestJS microservice:
 * `await settleAmqp(channel, message, await guard.process(fromAmqpMessage(message, queue)))`.
 *
 * Acks an event that is done and rejects one that is dead, so that the queue's dead-letter exchange gets it; without one
 * RabbitMQ discards it, and the record in the inbox is what remains. Everything else is held until it is due, for ten
 * minutes at most, and counts against the prefetch. Then a copy goes to the end of the queue and the message is acked,
 * because a quorum queue counts each return and drops a message at its delivery limit. This needs a confirm channel and
 * the message that `fromAmqpMessage` was given; otherwise the message is returned. `consumeAmqp` and `wrapAmqp` use delay
 * queues instead.
 *
 * @returns False if the channel was closed before: RabbitMQ delivers the message again.
 *
 * @example
 * ```ts
 * import { fromAmqpMessage, settleAmqp } from '@onceward/amqp'
 * import type { ConsumeMessage } from 'amqplib'
 *
 * export async function handle(message: ConsumeMessage): Promise<void> {
 *   const settlement = await billing.process(fromAmqpMessage(message, 'orders'))
 *   await settleAmqp(channel, message, settlement)
 * }
 * ```
 */
export async function settleAmqp(
  channel: Pick<AmqpChannel, 'ack' | 'nack'>,
  message: ConsumeMessage,
  settlement: Settlement,
): Promise<boolean> {
  const { kind } = settlement
  if (kind === 'ack') return isTold(() => channel.ack(message))
  if (kind === 'dead-letter') return isTold(() => channel.nack(message, false, false))
  const giveBack = (): boolean => isTold(() => channel.nack(message, false, true))
  if (kind === 'abandon' && settlement.reason === 'closing') return giveBack()
  const pace: Pace = {
    ...{ runtime: systemRuntime, rounds: deferralsOf(message), busiestMs: DEFAULTS.holdMs },
  }
  const waitMs = Math.min(waitMsOf(settlement, pace), LONGEST_WAIT_MS)
  // Given back at once, it would be delivered at once.
  await held(Math.max(SOON_MS, waitMs))
  if (await isCopied(channel, message)) return isTold(() => channel.ack(message))
  if (kind === 'defer' && settlement.reason === 'store-down') await held(OUTAGE_MS)
  return giveBack()
}

const held = (ms: number): Promise<void> => pause(ms, undefined, { ref: false })

/** By the connection. Each publishes on a channel of its own, because the broker closes the one of a publish that it denies. */
const PUBLISHERS = new WeakMap<object, Publisher>()

/** Publishes a copy to the end of the queue. False if it is unknown whether it arrives, or where it belongs. */
async function isCopied(
  channel: Pick<AmqpChannel, 'ack' | 'nack'> & { readonly connection?: unknown },
  message: ConsumeMessage,
): Promise<boolean> {
  const { connection } = channel
  const queue = queueOf(message)
  if (queue === undefined || typeof connection !== 'object' || connection === null) return false
  if (!hasMethod(channel, 'waitForConfirms')) return false
  const open = confirmingBeside(channel as AmqpConfirmChannel)
  const parts = { open, runtime: systemRuntime, onError: () => undefined }
  const publisher = PUBLISHERS.get(connection) ?? new Publisher(parts)
  PUBLISHERS.set(connection, publisher)
  const original = fromAmqpMessage(message, queue).raw as ConsumeMessage
  try {
    await publisher.publish({
      kind: 'deferral',
      of: message,
      exchange: '',
      routingKey: queue,
      content: message.content,
      options: copyOptions(original, deferralHeaders(message, original)),
      remedy: 'declare the queue again',
    })
    return true
  } catch {
    return false
  }
}

/** amqplib throws for a channel that is closed. */
function isTold(tell: () => unknown): boolean {
  try {
    tell()
    return true
  } catch {
    return false
  }
}
