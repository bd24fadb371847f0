import { EventEmitter } from 'node:events'
import { ConfigurationError, type Delivery, type WrappedConsumption } from '@onceward/core'
import {
  type Guard,
  type GuardPort,
  hasMethod,
  portOf,
  registerPublisher,
  type WrapOutage,
  type WrappedLoop,
  type WrapSignals,
  withConsumption,
} from '@onceward/core/adapter'
import type { Runtime } from '@onceward/core/ports'
import type { ConsumeMessage } from 'amqplib'
import type { AmqpChannel, AmqpConfirmChannel } from './client.ts'
import { Alarm } from './clients/alarm.ts'
import { DeliveryChannel } from './clients/amqplib.ts'
import { checkThere, type OpenChannel } from './clients/calls.ts'
import { areThere, DelayQueues } from './clients/delay-queues.ts'
import { keepHeard, listenTo } from './clients/listeners.ts'
import { Publisher } from './clients/publisher.ts'
import { describeQueue } from './clients/queue-shape.ts'
import { virtualHostOf } from './clients/virtual-host.ts'
import { createAccept } from './delivery.ts'
import { Dispatcher } from './dispatch.ts'
import {
  CancelledError,
  classifyError,
  exchangeMissing,
  WRAP_REMEDY,
  WrapClosedError,
} from './errors.ts'
import { checkWrapNames, resolveSettings, type Settings, type WrapAmqpOptions } from './options.ts'
import { createSettleContext } from './settle.ts'
import { assertLevels, besides, levelsOf } from './topology.ts'

/** What {@link wrapAmqp} returns: the callback of `channel.consume`. */
export interface WrappedAmqp {
  (message: ConsumeMessage | null): void
  readonly consumption: WrappedConsumption
}

/**
 * The guard as the callback of a `channel.consume` of your own.
 *
 * The same engine as `consumeAmqp`: messages are gathered into batches, acked, held, deferred to the delay queues or
 * sent to the dead-letter place when their settlement is stored, all on this channel, which must be a confirm
 * channel: a dead letter or a deferred copy counts only once the broker has it. Set `channel.prefetch()`, tell it as
 * `prefetch`, and never consume with `noAck`.
 *
 * A wrapped consumer does not recover a channel or consumer that ended: it logs an error that says what to do, and its
 * `consumption.health()` is `stopped` until a message comes again. Nor does it check the queue at start, or publish on a
 * channel of its own: what the broker refuses (no right to `write`, a message that is too large) closes this one, and
 * during an alarm the broker does not read its acks either. `consumeAmqp` does all that. To shut down:
 * `await channel.cancel(tag)`, `await wrapped.consumption.drain()`, `await guard.close()`, `await channel.close()`, which
 * gives the rest back.
 *
 * @throws {@link ConfigurationError} for options that cannot work, and for a channel without confirms.
 *
 * @example
 * ```ts
 * import { wrapAmqp } from '@onceward/amqp'
 *
 * await channel.prefetch(24)
 * await channel.consume('orders', wrapAmqp(channel, billing, { queue: 'orders', prefetch: 24 }))
 * ```
 */
export function wrapAmqp(
  channel: AmqpConfirmChannel,
  guard: Guard,
  options: WrapAmqpOptions,
): WrappedAmqp {
  const port = portOf(guard)
  checkWrapNames(options)
  // The prefetch is the user's.
  const settings = { ...resolveSettings(options, port.settings), isPrefetchFixed: true }
  if (!hasMethod(channel, 'waitForConfirms')) throw withoutConfirms(channel)
  const { queue, drainMs } = settings
  const describe = (error: unknown): string => classifyError(error).text
  const warn = (error: unknown): void => {
    port.logger.error(
      { queue, reason: describe(error) },
      'the channel of a wrapped consumer failed',
    )
  }
  return withConsumption({
    ...{ port, drainMs, queue, describe },
    createLoop: (signals) => createLoop({ port, settings, channel, signals, warn }),
  })
}

interface Parts {
  readonly port: GuardPort
  readonly settings: Settings
  readonly channel: AmqpConfirmChannel
  readonly signals: WrapSignals
  readonly warn: (error: unknown) => void
}

function createLoop(parts: Parts): WrappedLoop<(message: ConsumeMessage | null) => void> {
  const { port, settings, channel, signals, warn } = parts
  const { queue } = settings
  const deliveries = new DeliveryChannel(channel)
  const { publisher, alarm, endPublishing } = publishingOn(parts)
  const source = sourceOf(parts)
  const accept = createAccept(source, port.runtime)
  const delayQueues = delayQueuesBeside(parts)
  const context = createSettleContext({
    ...{ port, settings, publisher, delayQueues },
    // Not examined; and a publish that the broker denies would close the user's channel.
    rejectsTo: () => undefined,
  })
  const unregister = registerPublisher(port, source, context.place)
  let ended: WrapOutage | undefined
  const dispatcher = new Dispatcher({
    ...{ port, settings, context, signals },
    events: {
      onKnown: () => undefined,
      onSettled: signals.progressed,
      // Only the user can cancel this consumer: a message given back before that would return at once.
      stopDeliveries: async () => false,
    },
  })
  const ends = (error: Error): void => {
    ended = { state: 'stopped', reason: classifyError(error).text }
  }
  // Its user may wrap the channel again, for other queues.
  const letGo = (): void => {
    unregister()
    endPublishing()
    keepHeard(channel)
    leaveChannel()
  }
  const closed = (): void => {
    // The next wrap publishes on a channel of its own; health() must no longer name this one's failure.
    letGo()
    deliveries.closed()
    dispatcher.drop(deliveries)
    ends(new WrapClosedError(queue))
  }
  const leaveChannel = listenTo(channel, { error: warn, close: closed })
  return {
    wrapped: (message) => {
      if (message === null) {
        const error = new CancelledError(queue, WRAP_REMEDY)
        warn(error)
        return ends(error)
      }
      ended = undefined
      // The broker has answered. Without it, the first messages of a quiet hour would look stalled.
      signals.progressed()
      dispatcher.take(accept(message, deliveries))
    },
    dispatcher,
    settling: context.report,
    finish: async () => letGo(),
    get outage() {
      return ended ?? alarm.outage ?? delayQueues.outage
    },
  }
}

/** Publishes on the channel itself, unless the broker blocks its connection. */
function publishingOn({ channel, port, settings: { queue }, warn }: Parts) {
  const publisher = publisherOf(channel, port.runtime, warn)
  const alarm = new Alarm({ port, queue, publisher, isShared: true })
  const unlisten = listen(channel.connection, alarm)
  const endPublishing = (): void => {
    unlisten()
    publisher.release()
  }
  return { publisher, alarm, endPublishing }
}

/** The queue and its virtual host, which is asked for if dead letters are published there. */
function sourceOf({ channel, settings }: Pick<Parts, 'channel' | 'settings'>): Delivery['source'] {
  const source: { broker: string; queue: string; namespace?: string | undefined } = {
    ...{ broker: 'amqp', queue: settings.queue },
  }
  const learn = async (): Promise<void> => {
    source.namespace = await virtualHostOf(besides(channel))
  }
  if (typeof settings.deadLetter === 'object') learn().catch(() => undefined)
  return source
}

/** What amqplib has behind a channel: it hears of alarms even if the channel was not made by a connection of ours. */
function listen(connection: unknown, alarm: Alarm): () => void {
  if (!(connection instanceof EventEmitter)) return () => undefined
  const blocked = (reason: unknown): void => alarm.changed(connection, String(reason))
  const unblocked = (): void => alarm.changed(connection, undefined)
  return listenTo(connection, { blocked, unblocked })
}

function publisherOf(
  channel: AmqpConfirmChannel,
  runtime: Runtime,
  onError: (error: unknown) => void,
): Publisher {
  const open = besides(channel)
  return new Publisher({
    runtime,
    open: async () => channel,
    onError,
    // A publish to a missing exchange closes the channel, and with it the consumer (A3).
    before: async ({ exchange }) => {
      const missing = () => exchangeMissing('deadLetter.exchange', exchange)
      const check = (other: AmqpChannel) => other.checkExchange(exchange)
      if (exchange !== '') await checkThere(open, check, missing)
    },
  })
}

/** Declares the delay queues. */
function delayQueuesBeside({ channel, port: { runtime }, settings }: Parts): DelayQueues {
  const open = besides(channel)
  return new DelayQueues({
    runtime,
    declare: () => declareLevels(open, settings),
    look: () => areThere(open, settings),
    areDeclared: false,
  })
}

async function declareLevels(open: OpenChannel, { queue, levelsMs }: Settings): Promise<void> {
  const shape = await describeQueue(open, queue)
  await assertLevels(open, levelsOf(queue, levelsMs, shape === 'missing' ? undefined : shape))
}

function withoutConfirms(channel: unknown): ConfigurationError {
  return new ConfigurationError(
    `Expected a confirm channel, got ${kindOf(channel)}: without confirms it is unknown whether a dead letter or a ` +
      'deferred message arrived. Create it with `connection.createConfirmChannel()`.',
  )
}

/** The class of a value, or its type. Never throws: `import * as amqplib` has no class. */
function kindOf(value: unknown): string {
  try {
    return String((value as object).constructor.name)
  } catch {
    return value === null ? 'null' : typeof value
  }
}
