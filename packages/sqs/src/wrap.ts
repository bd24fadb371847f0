import type { Message } from '@aws-sdk/client-sqs'
import { ConfigurationError, type WrappedConsumption } from '@onceward/core'
import {
  type Guard,
  portOf,
  registerPublisher,
  reportFindings,
  wrapMessages,
} from '@onceward/core/adapter'
import type { SqsClient } from './client.ts'
import { createSqsApi, refuseOtherSqsClient } from './clients/aws-sdk.ts'
import { orderFindings } from './doctor.ts'
import { classifyError } from './errors.ts'
import { checkWrapNames, resolveSettings, type WrapSqsOptions } from './options.ts'
import { createSettleContext, settle } from './settle.ts'
import { createAccept } from './visibility.ts'

/** What {@link wrapSqs} returns: takes what a receive brought, and answers when all of it is settled. */
export interface WrappedSqs {
  (messages: Message[] | undefined): Promise<Message[]>
  readonly consumption: WrappedConsumption
}

/**
 * The guard for messages that your own loop receives, also sqs-consumer's `handleMessageBatch`.
 *
 * The same engine as `consumeSqs`: messages are kept hidden while they are worked on, deleted, deferred or sent to
 * the dead-letter queue when their settlement is stored. The answer resolves after that. It is always
 * an empty list, so that no version of sqs-consumer deletes anything itself: versions before 14 take
 * `undefined` for "delete all". Leave its `alwaysAcknowledge` and `terminateVisibilityTimeout` off.
 *
 * A wrapped loop does not stop receiving while the store is down (each receive then counts towards
 * `maxReceiveCount`), take only what can start soon, recover from errors of the receive, or check the queues at
 * start. `consumeSqs` does all that.
 *
 * Receive with a VisibilityTimeout of `visibilityMs` or more and with {@link receiveAttributes}.
 * To shut down: stop receiving, `await handle.consumption.drain()`, `await guard.close()`, close the client. What is
 * handed over after that is given back.
 *
 * @throws {@link ConfigurationError} here for options that cannot work; by the answer for a message that was
 * received without its attributes, before anything of its batch was started.
 *
 * @example
 * ```ts
 * import { ReceiveMessageCommand } from '@aws-sdk/client-sqs'
 * import { receiveAttributes, wrapSqs } from '@onceward/sqs'
 *
 * const handle = wrapSqs(sqs, billing, { queueUrl })
 * const input = { QueueUrl: queueUrl, VisibilityTimeout: 33, ...receiveAttributes }
 * const { Messages } = await sqs.send(new ReceiveMessageCommand(input))
 * await handle(Messages)
 * ```
 */
export function wrapSqs(client: SqsClient, guard: Guard, options: WrapSqsOptions): WrappedSqs {
  const port = portOf(guard)
  checkWrapNames(options)
  const settings = resolveSettings(options, port.settings)
  refuseOtherSqsClient('wrapSqs', client)
  const { queueUrl } = settings
  reportFindings([orderFindings(settings)], port.logger, { queue: queueUrl })
  const { runtime } = port
  const api = createSqsApi(client, queueUrl, runtime)
  const context = { ...createSettleContext(port, api, settings), mayHold: () => false }
  const unregister = registerPublisher(port, { broker: 'sqs', queue: queueUrl }, context.place)
  const accept = createAccept(settings, context.ticker)
  const handle = wrapMessages({
    ...{ port, settings, queue: queueUrl },
    describe: (error) => classifyError(error).text,
    accept: (messages: readonly Message[]) => {
      if (!Array.isArray(messages)) throw notAList()
      return accept(messages, runtime.monotonic())
    },
    settle: (received, settlement) => settle(context, received, settlement),
    hasDeadLetterPlace: settings.deadLetter !== undefined,
    settling: context.report,
    finish: async () => {
      context.ticker.stop()
      unregister()
    },
  })
  const wrapped = async (messages: Message[] | undefined): Promise<Message[]> => {
    await handle(messages ?? [])
    return []
  }
  return Object.assign(wrapped, { consumption: handle.consumption })
}

function notAList(): ConfigurationError {
  return new ConfigurationError(
    'Expected a list of messages. With sqs-consumer give the wrap as `handleMessageBatch`, not as `handleMessage`.',
  )
}
