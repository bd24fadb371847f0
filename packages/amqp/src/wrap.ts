import { ConfigurationError, type Runtime } from '@onceward/core'
import { type Guard, portOf, quoted } from '@onceward/core/adapter'
import type { ConsumeMessage } from 'amqplib'
import type { AmqpChannel, AmqpConfirmChannel } from './client.ts'
import { Line, Publisher } from './clients/amqplib.ts'
import { Intake } from './dispatch.ts'
import { CancelledError, exchangeMissing, troubleOf } from './errors.ts'
import { Handover } from './handover.ts'
import { resolveSettings, type Settings, type WrapAmqpOptions } from './options.ts'
import {
  assertLevels,
  besides,
  checkThere,
  describeQueue,
  isQuorumQueue,
  type OpenChannel,
} from './topology.ts'

/**
 * The guard as the callback of a `channel.consume` of your own.
 *
 * The same engine as `consumeAmqp`: messages are gathered into batches, acked, held, deferred to the delay queues or
 * sent to the dead-letter place when their settlement is stored, all on this channel, which must be a confirm
 * channel: a dead letter or a deferred copy counts only once the broker has it. Set `channel.prefetch()`, tell it as
 * `prefetch`, and never consume with `noAck`.
 *
 * What needs the loop it cannot do: recover a channel or consumer that ended, cancel while the store is down, drain,
 * check the queue at start. To shut down:
 * `await channel.cancel(tag)`, `await guard.close()`, `await channel.close()`, which gives the rest back.
 *
 * @throws {@link ConfigurationError} for options that cannot work, and for a channel without confirms.
 */
export function wrapAmqp(
  channel: AmqpConfirmChannel,
  guard: Guard,
  options: WrapAmqpOptions,
): (message: ConsumeMessage | null) => void {
  const port = portOf(guard)
  const settings = resolveSettings(options, port.settings)
  if (typeof channel.waitForConfirms !== 'function') throw withoutConfirms(channel)
  const { queue } = settings
  const warn = (error: unknown): void => {
    const fields = { queue, trouble: troubleOf(error).text }
    port.logger.error(fields, 'the channel of a wrapped consumer failed')
  }
  const line = new Line(channel)
  const handover: Handover = new Handover({
    port,
    settings,
    publisher: publisherOf(channel, port.runtime, warn),
    levels: declaredOnce(besides(channel), settings),
    mayHold: (why) => intake.mayHold(why),
    // The consumer is the user's to cancel: given back before that, a message would return at once.
    quiet: async () => false,
  })
  handover.registerPublisher()
  const { signal } = new AbortController()
  const nothing = (): void => undefined
  const intake: Intake = new Intake({
    port,
    settings,
    handover,
    stop: signal,
    abort: signal,
    onKnown: nothing,
    onSettled: nothing,
  })
  channel.on('error', warn)
  channel.on('close', () => {
    line.closed()
    intake.drop(line)
  })
  return (message) => {
    if (message === null) warn(new CancelledError(queue))
    else intake.take(handover.accept(message, line))
  }
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
    // A publish to an exchange that is missing closes the channel, and with it the consumer (A3).
    before: async ({ exchange }) => {
      const missing = () => exchangeMissing('deadLetter.exchange', exchange)
      const check = (other: AmqpChannel) => other.checkExchange(exchange)
      if (exchange !== '') await checkThere(open, check, missing)
    },
  })
}

/** The delay queues, declared when the first message needs one, and again after a failure. */
function declaredOnce(open: OpenChannel, { queue, levelsMs }: Settings): () => Promise<void> {
  let declaring: Promise<void> | undefined
  const declared = async (): Promise<void> => {
    const shape = await describeQueue(open, queue)
    const isQuorum = shape !== 'missing' && isQuorumQueue(shape)
    await assertLevels(open, { queue, levelsMs, isQuorum })
  }
  return () => {
    declaring ??= declared().catch((error: unknown) => {
      declaring = undefined
      throw error
    })
    return declaring
  }
}

function withoutConfirms(channel: unknown): ConfigurationError {
  const name = (channel as object | undefined)?.constructor?.name ?? quoted(channel)
  return new ConfigurationError(
    `Expected a confirm channel, got ${name}: without confirms nobody knows whether a dead letter or a deferred ` +
      'message arrived. Create it with `connection.createConfirmChannel()`.',
  )
}
