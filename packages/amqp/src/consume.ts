import type { Consumption } from '@onceward/core'
import {
  type ClientRule,
  type ConsumerLoop,
  forCaller,
  type Guard,
  type GuardPort,
  type LoopSignals,
  portOf,
  refuseUnfitClient,
  registerPublisher,
  startConsumption,
} from '@onceward/core/adapter'
import type { AmqpConnection } from './client.ts'
import { Alarm } from './clients/alarm.ts'
import { Connector } from './clients/connector.ts'
import { areThere, DelayQueues } from './clients/delay-queues.ts'
import { Publisher } from './clients/publisher.ts'
import { createAccept } from './delivery.ts'
import { Dispatcher } from './dispatch.ts'
import { type Examined, examine } from './doctor.ts'
import { classifyError, connectionGone } from './errors.ts'
import {
  type ConsumeAmqpOptions,
  checkConsumeNames,
  resolveSettings,
  type Settings,
} from './options.ts'
import { Receiver } from './receive.ts'
import { createSettleContext } from './settle.ts'
import { assertLevels } from './topology.ts'

const CONNECTION: ClientRule = {
  expected: 'a connection of amqplib, or a function that opens one',
  methods: ['createChannel', 'createConfirmChannel', 'on'],
  advice: 'Write `() => amqp.connect(url)`, which is called again when the connection was lost.',
}

/**
 * Consumes a queue for as long as the process lives and settles what the guard decides.
 *
 * Give a function and it is called again whenever its connection was lost; connections that it opened are
 * closed after the drain. A connection of your own stays yours: its channels are recovered, itself only by amqplib's
 * own `recovery`, and without that `stopped` rejects when it closes. Heartbeats, which end connections that went
 * silent, are the connection's own: leave them on.
 *
 * Resolves when the store, the queue and the dead-letter place have been checked, the delay queues are there and the
 * consumer is registered. When the broker or the store cannot be reached then, it resolves too and goes on trying:
 * see `health()`.
 *
 * @throws {@link ConfigurationError} for options or queues that cannot work, a missing queue included.
 *
 * @example
 * ```ts
 * import { consumeAmqp } from '@onceward/amqp'
 * import { connect } from 'amqplib'
 *
 * const consumption = await consumeAmqp(() => connect('amqp://rabbit'), billing, {
 *   queue: 'orders',
 *   deadLetter: { queue: 'orders.dead' },
 * })
 * process.once('SIGTERM', () => consumption.drain())
 * await consumption.stopped
 * await billing.close()
 * ```
 */
export async function consumeAmqp(
  connection: AmqpConnection | (() => Promise<AmqpConnection>),
  guard: Guard,
  options: ConsumeAmqpOptions,
): Promise<Consumption> {
  return await forCaller(consumeAmqp, async () => {
    const port = portOf(guard)
    checkConsumeNames(options)
    const settings = resolveSettings(options, port.settings)
    if (typeof connection !== 'function') refuseUnfitClient('consumeAmqp', connection, CONNECTION)
    return startConsumption({
      port,
      drainMs: settings.drainMs,
      signal: options.signal,
      queue: settings.queue,
      describe: (error) => classifyError(error).text,
      createLoop: (signals) => createLoop({ port, settings, signals, connection }),
    })
  })
}

interface Parts {
  readonly port: GuardPort
  readonly settings: Settings
  readonly signals: LoopSignals
  readonly connection: AmqpConnection | (() => Promise<AmqpConnection>)
}

function createLoop({ port, settings, signals, connection }: Parts): ConsumerLoop {
  const { runtime } = port
  const { queue } = settings
  const { connector, publisher, alarm, close } = createClients({
    ...{ port, settings, signals, connection },
  })
  const examination = new Examination(port, settings)
  // The receiver's check declares them on every new connection.
  const declare = async () => examination.check(await connector.open(), false)
  const look = async (): Promise<boolean> => {
    const connection = await connector.open()
    return areThere(() => connection.createChannel(), settings)
  }
  const delayQueues = new DelayQueues({ runtime, declare, look, areDeclared: true })
  const context = createSettleContext({
    port,
    settings,
    publisher,
    delayQueues,
    rejectsTo: () => examination.found?.rejectsTo,
  })
  const source = {
    ...{ broker: 'amqp', queue },
    get namespace() {
      return examination.found?.virtualHost
    },
  }
  const unregister = registerPublisher(port, source, context.place)
  const receiver = new Receiver({
    port,
    settings,
    connector,
    publishing: {
      get outage() {
        return alarm.outage ?? delayQueues.outage
      },
    },
    accept: createAccept(source, runtime),
    createDispatcher: (events) => new Dispatcher({ port, settings, context, signals, events }),
    check: (...given) => examination.check(...given),
    onEnd: signals.onEnd,
  })
  return {
    receiver,
    dispatcher: receiver.dispatcher,
    settling: context.report,
    // Unsettled messages go back to the queue with their channel; their events keep their leases.
    finish: async () => {
      unregister()
      await receiver.finish()
      await close()
    },
  }
}

interface Clients {
  readonly connector: Connector
  readonly publisher: Publisher
  readonly alarm: Alarm
  readonly close: () => Promise<void>
}

/**
 * The broker stops reading from a connection that publishes during an alarm, and then reads no acks on it either. So
 * messages are published on a connection of their own where one can be opened.
 */
function createClients({ port, settings, signals, connection }: Parts): Clients {
  const { runtime, logger } = port
  const onError = (error: unknown): void => {
    const fields = { queue: settings.queue, reason: classifyError(error).text }
    logger.warn(fields, 'the AMQP client failed')
  }
  const connectorOf = (onGone: (error: unknown) => void): Connector => {
    const connector: Connector = new Connector({
      ...{ source: connection, runtime, onError, onGone },
      onBlocked: (reason) => alarm.changed(connector, reason),
    })
    return connector
  }
  const connector = connectorOf((error) =>
    signals.onEnd({ kind: 'fatal', error: connectionGone(error) }),
  )
  const outlet = connector.isOurs ? connectorOf(() => undefined) : connector
  const publisher = new Publisher({ runtime, onError, open: () => outlet.openChannel() })
  const alarm = new Alarm({
    port,
    queue: settings.queue,
    publisher,
    isShared: outlet === connector,
  })
  const close = async (): Promise<void> => {
    await publisher.close()
    // Where both are the same connector, the second call does nothing.
    await Promise.all([connector.close(), outlet.close()])
  }
  return { connector, publisher, alarm, close }
}

/** Each queue is examined once; on later connections only the delay queues are declared again. */
class Examination {
  found: Examined | undefined
  readonly #port: Pick<GuardPort, 'logger'>
  readonly #settings: Settings

  constructor(port: Pick<GuardPort, 'logger'>, settings: Settings) {
    this.#port = port
    this.#settings = settings
  }

  async check(connection: AmqpConnection, isNewQueue: boolean): Promise<Examined> {
    const { logger } = this.#port
    if (this.found === undefined || isNewQueue)
      this.found = await examine({ connection, settings: this.#settings, logger })
    else await assertLevels(() => connection.createChannel(), this.found.levels)
    return this.found
  }
}
