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
import type { StreamApi, StreamClient } from './client.ts'
import { connectionOf } from './clients/connection.ts'
import { createStreamApi } from './clients/stream-api.ts'
import { createAccept } from './delivery.ts'
import { createDispatcher } from './dispatch.ts'
import { examine } from './doctor.ts'
import { classifyError } from './errors.ts'
import {
  type ConsumeStreamOptions,
  checkConsumeNames,
  resolveSettings,
  type Settings,
} from './options.ts'
import { Receiver } from './receive.ts'
import { createSettleContext } from './settle.ts'

/**
 * Receives from a consumer group of one or several streams for as long as the process lives, and settles what the guard
 * decides. Entries of processes that died are taken over.
 *
 * The client stays yours. Receives wait on connections of their own, which `duplicate` of the client makes: one for all
 * streams, on a cluster one for each.
 *
 * Resolves when the store and the streams have been checked and the first receive is under way. If Redis or the store
 * cannot be reached then, it resolves too and keeps trying: see `health()`.
 *
 * @throws {@link ConfigurationError} for options or streams that cannot work.
 *
 * @example
 * ```ts
 * import { consumeStream } from '@onceward/redis-streams'
 *
 * const consumption = await consumeStream(redis, billing, {
 *   stream: 'orders',
 *   deadLetter: { stream: 'orders.dead' },
 * })
 * process.once('SIGTERM', () => consumption.drain())
 * await consumption.stopped
 * await billing.close()
 * ```
 */
export async function consumeStream(
  client: StreamClient,
  guard: Guard,
  options: ConsumeStreamOptions,
): Promise<Consumption> {
  return await forCaller(consumeStream, async () => {
    const port = portOf(guard)
    checkConsumeNames(options)
    const settings = resolveSettings(options, port.settings)
    const api = createStreamApi(connectionOf('consumeStream', client), settings, port.runtime)
    return startConsumption({
      port,
      drainMs: settings.drainMs,
      signal: options.signal,
      queue: settings.queue,
      describe: (error) => classifyError(error).text,
      createLoop: (signals) => createLoop({ port, api, settings, signals }),
    })
  })
}

interface Parts {
  readonly port: GuardPort
  readonly api: StreamApi
  readonly settings: Settings
  readonly signals: LoopSignals
}

function createLoop({ port, api, settings, signals }: Parts): ConsumerLoop {
  const context = createSettleContext(port, api, settings)
  const unregister = settings.streams.map((queue) =>
    registerPublisher(port, { broker: 'redis-streams', queue }, context.place),
  )
  const restore = groupMaker({ port, api, settings })
  const dispatcher = createDispatcher({
    ...{ port, settings, context, signals },
    source: new Receiver({
      ...{ port, api, settings, restore },
      accept: createAccept(settings, context.owned),
    }),
    check: async () => {
      await port.open()
      await restore()
    },
  })
  return {
    receiver: dispatcher,
    dispatcher,
    settling: context.report,
    // Entries whose handlers did not end keep their leases, and are claimed when they were idle for long enough.
    finish: async () => {
      context.owned.stop()
      for (const each of unregister) each()
      await api.close()
    },
  }
}

/**
 * Creates the groups that are missing, at the first entry: what is in the stream is not settled. With `keepEntries` that
 * is true only of entries that the guard still knows. A start that is refused must leave no group: one would refuse the
 * next start of those who consume the stream already.
 */
function groupMaker({ port, api, settings }: Omit<Parts, 'signals'>): () => Promise<void> {
  const { runtime, logger } = port
  let hadGroup = false
  return async () => {
    const nowMs = runtime.now()
    await examine({ api, settings, guard: port.settings, logger, nowMs, hadGroup })
    for (const stream of settings.streams) await api.ensureGroup(stream)
    hadGroup = true
  }
}
