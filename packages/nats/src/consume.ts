import type { Consumption } from '@onceward/core'
import {
  type ConsumerLoop,
  forCaller,
  type Guard,
  type GuardPort,
  type LoopSignals,
  portOf,
  registerPublisher,
  startConsumption,
} from '@onceward/core/adapter'
import type { NatsApi, NatsClient } from './client.ts'
import { refuseOtherNatsClient } from './clients/connection.ts'
import { createNatsApi } from './clients/nats-api.ts'
import { createAccept } from './delivery.ts'
import { createDispatcher } from './dispatch.ts'
import { examine, unknownTerms } from './doctor.ts'
import { classifyError } from './errors.ts'
import {
  type ConsumeNatsOptions,
  checkConsumeNames,
  resolveSettings,
  type Settings,
} from './options.ts'
import { Receiver } from './receive.ts'
import { createSettleContext } from './settle.ts'

/**
 * Receives from a pull consumer of JetStream for as long as the process lives and settles what the guard decides.
 *
 * The connection stays yours. Connect with `maxReconnectAttempts: -1`: by default it closes for ever after 20 s without a
 * server, and the consumer ends.
 *
 * Resolves when the store, the stream and its consumer have been checked and the first receive is under way. If NATS or the
 * store cannot be reached then, it resolves too and keeps trying: see `health()`.
 *
 * @throws {@link ConfigurationError} for options, streams or consumers that cannot work, missing ones included.
 *
 * @example
 * ```ts
 * import { connect } from '@nats-io/transport-node'
 * import { consumeNats } from '@onceward/nats'
 *
 * const connection = await connect({ maxReconnectAttempts: -1 })
 * const consumption = await consumeNats(connection, billing, {
 *   stream: 'ORDERS',
 *   consumer: 'billing',
 *   deadLetter: { subject: 'dead.orders' },
 * })
 * process.once('SIGTERM', () => consumption.drain())
 * await consumption.stopped
 * await billing.close()
 * await connection.close()
 * ```
 */
export async function consumeNats(
  connection: NatsClient,
  guard: Guard,
  options: ConsumeNatsOptions,
): Promise<Consumption> {
  return await forCaller(consumeNats, async () => {
    const port = portOf(guard)
    checkConsumeNames(options)
    const settings = resolveSettings(options, port.settings)
    refuseOtherNatsClient('consumeNats', connection)
    const { domain } = options
    const api = createNatsApi(connection, { ...settings, domain }, port.runtime)
    return startConsumption({
      port,
      drainMs: settings.drainMs,
      signal: options.signal,
      queue: settings.stream,
      describe: (error) => classifyError(error).text,
      createLoop: (signals) => createLoop({ port, api, settings, signals }),
    })
  })
}

interface Parts {
  readonly port: GuardPort
  readonly api: NatsApi
  readonly settings: Settings
  readonly signals: LoopSignals
}

function createLoop({ port, api, settings, signals }: Parts): ConsumerLoop {
  const { runtime, logger } = port
  const terms = unknownTerms()
  const context = createSettleContext(port, api, { settings, terms })
  const unregister = registerPublisher(
    port,
    { broker: 'nats', queue: settings.stream },
    context.place,
  )
  let hadConsumer = false
  const look = async (): Promise<void> => {
    const found = await examine({ api, settings, guard: port.settings, logger, hadConsumer })
    hadConsumer = true
    const { incarnation = found.incarnation } = terms
    if (incarnation !== found.incarnation) context.owned.forget()
    Object.assign(terms, found)
  }
  const dispatcher = createDispatcher({
    ...{ port, settings, context, signals },
    source: new Receiver({
      ...{ port, api, settings, terms, look },
      accept: createAccept(settings, context.owned, { terms, runtime }),
    }),
    check: async () => {
      await port.open()
      await look()
    },
  })
  return {
    receiver: dispatcher,
    dispatcher,
    settling: context.report,
    // Messages whose handlers did not end keep their leases, and return when their `ack_wait` is over.
    finish: async () => {
      context.owned.stop()
      unregister()
      api.close()
    },
  }
}
