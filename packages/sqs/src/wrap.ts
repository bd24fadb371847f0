import type { Message } from '@aws-sdk/client-sqs'
import { byOrderingKey, type Guard, portOf, toBatches } from '@onceward/core/adapter'
import { createWire, type SqsClient } from './clients/aws-sdk.ts'
import { Handover } from './handover.ts'
import { resolveSettings, type WrapSqsOptions } from './options.ts'

/**
 * The guard for messages that your own loop receives, also sqs-consumer's `handleMessageBatch`.
 *
 * The same engine as `consumeSqs`: messages are kept hidden while they are worked on, deleted, deferred or sent to
 * the dead-letter queue when their settlement is stored, and the answer resolves when all that is done. It is
 * always `undefined`, which tells sqs-consumer to delete nothing itself; leave its `alwaysAcknowledge` and
 * `terminateVisibilityTimeout` off.
 *
 * What needs the loop it cannot do: stop receiving while the store is down (each receive then counts towards
 * `maxReceiveCount`), take no more than can start soon, drain, recover from errors of the receive, check the
 * queues at start. Receive with a VisibilityTimeout of `visibilityMs` or more and with {@link receiveAttributes}.
 * To shut down: stop receiving, `await guard.close()`, await the last answer, close the client.
 *
 * @throws {@link ConfigurationError} here for options that cannot work; by the answer for a message that was
 * received without its attributes, before anything of its batch was begun.
 */
export function wrapSqs(
  client: SqsClient,
  guard: Guard,
  options: WrapSqsOptions,
): (messages: Message[] | undefined) => Promise<undefined> {
  const port = portOf(guard)
  const settings = resolveSettings(options, port.settings)
  const handover = new Handover(port, createWire(client, settings.queueUrl, port.runtime), settings)
  handover.registerPublisher()
  return async (messages) => {
    const received = handover.accept(messages ?? [], port.runtime.monotonic())
    for (const slice of toBatches(byOrderingKey(received), settings.batchSize)) {
      await handover.run(slice, {})
    }
    return undefined
  }
}
