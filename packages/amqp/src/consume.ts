import type { Consumption } from '@onceward/core'
import {
  type ConsumerLoop,
  type Guard,
  type GuardPort,
  type LoopSignals,
  portOf,
  startConsumption,
} from '@onceward/core/adapter'
import { type AmqpChannel, type AmqpConnection, Connector } from './client.ts'
import { Publisher } from './clients/amqplib.ts'
import { Intake } from './dispatch.ts'
import { examine } from './doctor.ts'
import { connectionGone, PublishError, troubleOf } from './errors.ts'
import { Handover } from './handover.ts'
import { type ConsumeAmqpOptions, resolveSettings, type Settings } from './options.ts'
import { Subscriber } from './receive.ts'
import { assertLevels, type Levels } from './topology.ts'

/**
 * Consumes a queue for as long as the process lives and settles what the guard decides.
 *
 * Give a function and it is called again whenever its connection was lost, for ever; connections that it opened are
 * closed after the drain. A connection of your own stays yours: its channels are recovered, itself only by amqplib's
 * own `recovery`, and without that `stopped` rejects when it closes. Heartbeats, which end connections that went
 * silent, are the connection's own: leave them on.
 *
 * Resolves when the store, the queue and the dead-letter place have been checked, the delay queues are there and the
 * consumer is registered. When the broker or the store cannot be reached then, it resolves too and goes on trying:
 * see `health()`.
 *
 * @throws {@link ConfigurationError} for options or queues that cannot work, a missing queue included.
 */
export async function consumeAmqp(
  connection: AmqpConnection | (() => Promise<AmqpConnection>),
  guard: Guard,
  options: ConsumeAmqpOptions,
): Promise<Consumption> {
  const port = portOf(guard)
  const settings = resolveSettings(options, port.settings)
  return startConsumption({
    port,
    drainMs: settings.drainMs,
    signal: options.signal,
    queue: settings.queue,
    describe: (error) => troubleOf(error).text,
    createLoop: (signals) => new QueueLoop({ port, settings, signals, source: connection }),
  })
}

interface Parts {
  readonly port: GuardPort
  readonly settings: Settings
  readonly signals: LoopSignals
  readonly source: AmqpConnection | (() => Promise<AmqpConnection>)
}

/** Connection, consumer, messages in hand and settling of one queue. */
class QueueLoop implements ConsumerLoop {
  readonly feed: Subscriber
  readonly intake: Intake
  readonly settling: Handover
  readonly #connector: Connector
  readonly #publisher: Publisher
  readonly #unregister: () => void
  #levels: Levels | undefined

  constructor({ port, settings, signals, source }: Parts) {
    const { runtime, logger } = port
    const onError = (error: unknown): void =>
      logger.warn(
        { queue: settings.queue, trouble: troubleOf(error).text },
        'the AMQP client failed',
      )
    this.#connector = new Connector({
      source,
      runtime,
      onError,
      onBlocked: (reason) => {
        this.#publisher.blocked = reason
        this.feed.blocked(reason)
      },
      onGone: (error) => signals.onEnd({ kind: 'fatal', error: connectionGone(error) }),
    })
    this.#publisher = new Publisher({
      runtime,
      onError,
      open: async () => {
        const { current } = this.#connector
        if (current === undefined) throw new PublishError('there is no connection to the broker')
        return current.createConfirmChannel()
      },
    })
    this.settling = new Handover({
      port,
      settings,
      publisher: this.#publisher,
      levels: async () => undefined,
      mayHold: (why) => this.intake.mayHold(why),
      quiet: () => this.feed.quiet(),
    })
    this.#unregister = this.settling.registerPublisher()
    this.intake = new Intake({
      port,
      settings,
      handover: this.settling,
      stop: signals.stop,
      abort: signals.abort,
      onKnown: (settlement) => this.feed.known(settlement),
      onSettled: (line) => this.feed.settled(line),
    })
    this.feed = new Subscriber({
      port,
      settings,
      connector: this.#connector,
      handover: this.settling,
      intake: this.intake,
      check: async (connection) => {
        const open = (): Promise<AmqpChannel> => connection.createChannel()
        if (this.#levels !== undefined) return assertLevels(open, this.#levels)
        this.#levels = await examine({ connection, settings, logger })
      },
      onEnd: signals.onEnd,
    })
  }

  async start(): Promise<void> {
    try {
      await this.feed.start()
    } catch (error) {
      await this.finish()
      throw error
    }
  }

  async stop(): Promise<void> {
    await this.feed.stop()
    this.intake.clear()
    await this.intake.ended()
  }

  /** What has not ended by now goes back with its channel, and keeps its lease. */
  async finish(): Promise<void> {
    this.#unregister()
    await this.feed.finish()
    await this.#publisher.close()
    await this.#connector.close()
  }
}
