import type { WrappedConsumption } from '@onceward/core'
import { type Guard, portOf, registerPublisher, wrapMessages } from '@onceward/core/adapter'
import type { NatsClient, NatsMessage } from './client.ts'
import { refuseOtherNatsClient } from './clients/connection.ts'
import { createNatsApi } from './clients/nats-api.ts'
import { createAccept, toPulled } from './delivery.ts'
import { factsOf, termsOf, unknownTerms } from './doctor.ts'
import { classifyError } from './errors.ts'
import { checkWrapNames, resolveSettings, type WrapNatsOptions } from './options.ts'
import { createSettleContext, settle } from './settle.ts'

/** What {@link wrapNats} returns: takes what your loop received, and resolves when all of it is settled. */
export interface WrappedNats {
  (messages: NatsMessage | readonly NatsMessage[]): Promise<void>
  readonly consumption: WrappedConsumption
}

/**
 * The guard for messages that your own `consume()` or `fetch()` of a pull consumer receives.
 *
 * The same engine as `consumeNats`: messages are renewed by `working` while they are worked on, and acked, deferred or
 * published as dead letters when their settlement is stored. The answer resolves after that. Do not ack them yourself.
 *
 * A wrapped loop does not stop receiving while the store is down, recover from errors of the receive, or check the stream
 * and the consumer. `consumeNats` does all that. Messages that the client has buffered are not renewed: keep
 * `max_messages` of `consume()` small.
 *
 * To shut down: stop receiving, `await handle.consumption.drain()`, `await guard.close()`, close the connection.
 *
 * @throws {@link ConfigurationError} here for options that cannot work; by the answer for what is no message of a pull
 * consumer, before anything of its batch was started.
 *
 * @example
 * ```ts
 * import { jetstream } from '@nats-io/jetstream'
 * import { connect } from '@nats-io/transport-node'
 * import { wrapNats } from '@onceward/nats'
 *
 * const connection = await connect({ maxReconnectAttempts: -1 })
 * const handle = wrapNats(connection, billing, { stream: 'ORDERS', consumer: 'billing' })
 * const consumer = await jetstream(connection).consumers.get('ORDERS', 'billing')
 * for await (const message of await consumer.consume({ max_messages: 8 })) void handle(message)
 * ```
 */
export function wrapNats(
  connection: NatsClient,
  guard: Guard,
  options: WrapNatsOptions,
): WrappedNats {
  const port = portOf(guard)
  checkWrapNames(options)
  const settings = resolveSettings(options, port.settings)
  refuseOtherNatsClient('wrapNats', connection)
  const { runtime, logger } = port
  const { domain } = options
  const api = createNatsApi(connection, { ...settings, domain }, runtime)
  const terms = unknownTerms()
  const context = {
    ...createSettleContext(port, api, { settings, terms }),
    mayHold: () => false,
  }
  const queue = settings.stream
  const unregister = registerPublisher(port, { broker: 'nats', queue }, context.place)
  const accept = createAccept(settings, context.owned, { terms, runtime })
  const handle = wrapMessages({
    ...{ port, settings, queue },
    describe: (error) => classifyError(error).text,
    accept: (messages: readonly NatsMessage[]) =>
      accept(messages.map(toPulled), runtime.monotonic()),
    settle: (received, settlement) => settle(context, received, settlement),
    hasDeadLetterPlace: settings.deadLetter !== undefined,
    settling: context.report,
    finish: async () => {
      context.owned.stop()
      unregister()
      api.close()
    },
  })
  let learning: Promise<void> | undefined
  /** How long a message is this consumer's. Without an answer, as long as by default. */
  const learn = async (): Promise<void> => {
    try {
      Object.assign(terms, termsOf(await factsOf(api, settings)))
    } catch (error) {
      learning = undefined
      const fields = { queue, reason: classifyError(error).text }
      logger.warn(fields, 'the consumer could not be looked at; its ack_wait is taken for 30 s')
    }
  }
  const wrapped = async (messages: NatsMessage | readonly NatsMessage[]): Promise<void> => {
    learning ??= learn()
    await learning
    await handle([messages].flat())
  }
  return Object.assign(wrapped, { consumption: handle.consumption })
}
