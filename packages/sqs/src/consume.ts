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
import type { SqsApi, SqsClient } from './client.ts'
import { createSqsApi, refuseOtherSqsClient } from './clients/aws-sdk.ts'
import { createDispatcher } from './dispatch.ts'
import { examine } from './doctor.ts'
import { classifyError } from './errors.ts'
import {
  type ConsumeSqsOptions,
  checkConsumeNames,
  resolveSettings,
  type Settings,
} from './options.ts'
import { Receiver } from './receive.ts'
import { createSettleContext } from './settle.ts'
import { createAccept } from './visibility.ts'

/**
 * Receives from a queue for as long as the process lives and settles what the guard decides.
 *
 * Resolves when the store and the queue have been checked and the first receive is under way. If SQS or the store
 * cannot be reached then, it resolves too and keeps trying: see `health()`.
 *
 * @throws {@link ConfigurationError} for options or queues that cannot work, a missing queue included.
 *
 * @example
 * ```ts
 * import { consumeSqs } from '@onceward/sqs'
 *
 * const consumption = await consumeSqs(sqs, billing, {
 *   queueUrl,
 *   deadLetter: { queueUrl: deadLetterUrl },
 * })
 * process.once('SIGTERM', () => consumption.drain())
 * await consumption.stopped
 * await billing.close()
 * ```
 */
export async function consumeSqs(
  client: SqsClient,
  guard: Guard,
  options: ConsumeSqsOptions,
): Promise<Consumption> {
  return await forCaller(consumeSqs, async () => {
    const port = portOf(guard)
    checkConsumeNames(options)
    const settings = resolveSettings(options, port.settings)
    refuseOtherSqsClient('consumeSqs', client)
    const api = createSqsApi(client, settings.queueUrl, port.runtime)
    return startConsumption({
      port,
      drainMs: settings.drainMs,
      signal: options.signal,
      queue: settings.queueUrl,
      describe: (error) => classifyError(error).text,
      createLoop: (signals) => createLoop({ port, api, settings, signals }),
    })
  })
}

interface Parts {
  readonly port: GuardPort
  readonly api: SqsApi
  readonly settings: Settings
  readonly signals: LoopSignals
}

function createLoop({ port, api, settings, signals }: Parts): ConsumerLoop {
  const context = createSettleContext(port, api, settings)
  const source = { broker: 'sqs', queue: settings.queueUrl }
  const unregister = registerPublisher(port, source, context.place)
  const dispatcher = createDispatcher({
    ...{ port, settings, context, signals },
    source: new Receiver({
      ...{ port, api, settings, abort: signals.abort },
      accept: createAccept(settings, context.ticker),
    }),
    check: async () => {
      await port.open()
      await examine({ api, settings, guard: port.settings, logger: port.logger })
    },
  })
  return {
    receiver: dispatcher,
    dispatcher,
    settling: context.report,
    // Unsettled messages stay hidden for one visibility timeout and keep their leases.
    finish: async () => {
      context.ticker.stop()
      unregister()
    },
  }
}
