import type { Message } from '@aws-sdk/client-sqs'
import { ConfigurationError, type WrappedConsumption } from '@onceward/core'
import {
  byOrderingKey,
  type Guard,
  type GuardPort,
  portOf,
  processAndSettle,
  type RunHooks,
  registerPublisher,
  reportFindings,
  toBatches,
  withConsumption,
} from '@onceward/core/adapter'
import type { SqsClient } from './client.ts'
import { createSqsApi, refuseOtherSqsClient } from './clients/aws-sdk.ts'
import { createAccept, type Received } from './delivery.ts'
import { orderFindings } from './doctor.ts'
import { classifyError } from './errors.ts'
import { checkWrapNames, resolveSettings, type Settings, type WrapSqsOptions } from './options.ts'
import { createSettleContext, type SettleContext, settle } from './settle.ts'

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
  const { queueUrl, drainMs } = settings
  reportFindings([orderFindings(settings)], port.logger, { queue: queueUrl })
  return withConsumption({
    port,
    drainMs,
    queue: queueUrl,
    describe: (error) => classifyError(error).text,
    createLoop: (signals) => {
      const context = createSettleContext(
        port,
        createSqsApi(client, queueUrl, port.runtime),
        settings,
      )
      const unregister = registerPublisher(port, { broker: 'sqs', queue: queueUrl }, context.place)
      const dispatcher = new WrappedMessages({ port, settings, signals, context })
      const wrapped = async (messages: Message[] | undefined): Promise<Message[]> => {
        await dispatcher.take(messages ?? [])
        return []
      }
      const finish = async (): Promise<void> => {
        context.ticker.stop()
        unregister()
      }
      return {
        ...{ wrapped, dispatcher, settling: context.counts, finish },
        get lastProgressAt() {
          return dispatcher.lastProgressAt
        },
      }
    },
  })
}

function notAList(): ConfigurationError {
  return new ConfigurationError(
    'Expected a list of messages. With sqs-consumer give the wrap as `handleMessageBatch`, not as `handleMessage`.',
  )
}

interface Parts {
  readonly port: GuardPort
  readonly settings: Settings
  readonly signals: Pick<RunHooks, 'stop' | 'abort'>
  readonly context: SettleContext
}

/** The messages that the user's loop handed over, until SQS has taken their settlement. */
class WrappedMessages {
  inFlight = 0
  lastProgressAt: Date | undefined
  readonly #parts: Parts
  readonly #accept: (messages: readonly Message[], sinceMs: number) => readonly Received[]
  readonly #calls = new Set<Promise<void>>()

  constructor(parts: Parts) {
    this.#parts = parts
    this.#accept = createAccept(parts.settings, parts.context.ticker)
  }

  /** @throws {@link ConfigurationError} for messages without their attributes, and for a single message. */
  async take(messages: readonly Message[]): Promise<void> {
    if (!Array.isArray(messages)) throw notAList()
    const received = this.#accept(messages, this.#parts.port.runtime.monotonic())
    this.inFlight += received.length
    // SQS has answered. Without it, the first messages of a quiet hour would look stalled.
    this.#progressed()
    const call = this.#process(received).finally(() => this.#calls.delete(call))
    this.#calls.add(call)
    await call
  }

  #progressed(): void {
    this.lastProgressAt = new Date(this.#parts.port.runtime.now())
  }

  /** Nothing waits here: the guard answers a stop for messages that it has not started. */
  clear(): void {}

  async ended(): Promise<void> {
    while (this.#calls.size > 0) await Promise.allSettled(this.#calls)
  }

  async #process(received: readonly Received[]): Promise<void> {
    const { port, settings, signals, context } = this.#parts
    for (const batch of toBatches(byOrderingKey(received), settings.batchSize)) {
      await processAndSettle(port, batch, {
        ...signals,
        hasDeadLetterPlace: settings.deadLetter !== undefined,
        settle: async (each, settlement) => {
          await settle(context, each, settlement)
          this.inFlight -= 1
          this.#progressed()
        },
      })
    }
  }
}
