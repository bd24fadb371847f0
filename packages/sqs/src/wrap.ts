import type { Message } from '@aws-sdk/client-sqs'
import {
  byOrderingKey,
  type Guard,
  portOf,
  processAndSettle,
  registerPublisher,
  toBatches,
} from '@onceward/core/adapter'
import type { SqsClient } from './client.ts'
import { createSqsApi } from './clients/aws-sdk.ts'
import { createAccept } from './delivery.ts'
import { checkWrapNames, resolveSettings, type WrapSqsOptions } from './options.ts'
import { createSettleContext, settle } from './settle.ts'

/**
 * The guard for messages that your own loop receives, also sqs-consumer's `handleMessageBatch`.
 *
 * The same engine as `consumeSqs`: messages are kept hidden while they are worked on, deleted, deferred or sent to
 * the dead-letter queue when their settlement is stored. The answer resolves when all that is done. It is always
 * an empty list, which tells every version of sqs-consumer to delete nothing itself: versions before 14 take
 * `undefined` for "delete all". Leave its `alwaysAcknowledge` and `terminateVisibilityTimeout` off.
 *
 * A wrapped loop does not stop receiving while the store is down (each receive then counts towards
 * `maxReceiveCount`), take only what can start soon, drain, recover from errors of the receive, or check the
 * queues at start. `consumeSqs` does all that.
 *
 * Receive with a VisibilityTimeout of `visibilityMs` or more and with {@link receiveAttributes}.
 * To shut down: stop receiving, `await guard.close()`, await the last answer, close the client.
 *
 * @throws {@link ConfigurationError} here for options that cannot work; by the answer for a message that was
 * received without its attributes, before anything of its batch was started.
 */
export function wrapSqs(
  client: SqsClient,
  guard: Guard,
  options: WrapSqsOptions,
): (messages: Message[] | undefined) => Promise<Message[]> {
  const port = portOf(guard)
  checkWrapNames(options)
  const settings = resolveSettings(options, port.settings)
  const api = createSqsApi(client, settings.queueUrl, port.runtime)
  const context = createSettleContext(port, api, settings)
  registerPublisher(port, { broker: 'sqs', queue: settings.queueUrl }, context.place)
  const accept = createAccept(settings, context.ticker)
  return async (messages) => {
    const received = accept(messages ?? [], port.runtime.monotonic())
    for (const batch of toBatches(byOrderingKey(received), settings.batchSize)) {
      await processAndSettle(port, batch, {
        settle: (each, settlement) => settle(context, each, settlement),
      })
    }
    return []
  }
}
