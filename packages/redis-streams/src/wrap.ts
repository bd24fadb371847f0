import { ConfigurationError, type WrappedConsumption } from '@onceward/core'
import {
  type Guard,
  type GuardPort,
  pauseOf,
  portOf,
  registerPublisher,
  wrapMessages,
} from '@onceward/core/adapter'
import type { ClaimedEntry, StreamClient, StreamEntry } from './client.ts'
import { connectionOf } from './clients/connection.ts'
import { createStreamApi } from './clients/stream-api.ts'
import { createAccept, entriesOf, type StreamReply } from './delivery.ts'
import { classifyError } from './errors.ts'
import {
  checkWrapNames,
  resolveSettings,
  type Settings,
  type WrapStreamOptions,
} from './options.ts'
import { Claims } from './pending.ts'
import { createSettleContext, settle } from './settle.ts'

/** What {@link wrapStream} returns: takes what XREADGROUP answered, and resolves when all of it is settled. */
export interface WrappedStream {
  (reply: StreamReply | undefined): Promise<void>
  readonly consumption: WrappedConsumption
}

/** Parked entries that are due, and entries of others, are looked for this often. */
const LOOK_MS = 1_000
/** Entries that one look takes at least. */
const LOOK_ENTRIES = 10

/**
 * The guard for entries that your own XREADGROUP loop reads.
 *
 * The same engine as `consumeStream`: entries are renewed while they are worked on, acked, parked or sent to the
 * dead-letter stream when their settlement is stored. The answer resolves after that. Entries that were parked, and those
 * of consumers that died, are claimed and run by the wrap itself: it looks once a second, and at once as long as there are
 * more.
 *
 * A wrapped loop does not stop reading while the store is down, recover from errors of the read, create the group, or
 * check the streams at start. `consumeStream` does all that.
 *
 * Read new entries (`>`) under the name that `consumerName` says, on a connection of its own. The loop's client may
 * answer texts, but only bytes (`xreadgroupBuffer` of ioredis) keep a payload that is not UTF-8. To shut down: stop
 * reading, `await handle.consumption.drain()`, `await guard.close()`, close the client.
 *
 * @throws {@link ConfigurationError} for options that cannot work.
 *
 * @example
 * ```ts
 * import { wrapStream } from '@onceward/redis-streams'
 *
 * const handle = wrapStream(redis, billing, { stream: 'orders', consumerName: 'billing-1' })
 * const reader = redis.duplicate()
 * const reply = await reader.xreadgroupBuffer(
 *   'GROUP', 'billing', 'billing-1', 'COUNT', 10, 'BLOCK', 1000, 'STREAMS', 'orders', '>',
 * )
 * await handle(reply)
 * ```
 */
export function wrapStream(
  client: StreamClient,
  guard: Guard,
  options: WrapStreamOptions,
): WrappedStream {
  const port = portOf(guard)
  checkWrapNames(options)
  const settings = resolveSettings(options, port.settings)
  const api = createStreamApi(connectionOf('wrapStream', client), settings, port.runtime)
  const context = { ...createSettleContext(port, api, settings), mayHold: () => false }
  const unregister = settings.streams.map((queue) =>
    registerPublisher(port, { broker: 'redis-streams', queue }, context.place),
  )
  const handle = wrapMessages({
    ...{ port, settings, queue: settings.queue },
    describe: (error) => classifyError(error).text,
    accept: createAccept(settings, context.owned) as (
      entries: readonly (StreamEntry | ClaimedEntry)[],
    ) => ReturnType<ReturnType<typeof createAccept>>,
    settle: (received, settlement) => settle(context, received, settlement),
    hasDeadLetterPlace: settings.deadLetter !== undefined,
    settling: context.report,
    finish: async () => {
      stopLooking()
      context.owned.stop()
      for (const each of unregister) each()
      await api.close()
    },
  })
  const { runtime, logger } = port
  const claims = new Claims({ api, settings, runtime, logger })
  const stopLooking = lookAround({ port, claims, settings, handle })
  const wrapped = async (reply: StreamReply | undefined): Promise<void> => {
    if (typeof (reply ?? {}) !== 'object') throw notAReply()
    await handle(entriesOf(reply))
  }
  return Object.assign(wrapped, { consumption: handle.consumption })
}

interface Looking {
  readonly port: GuardPort
  readonly claims: Claims
  readonly settings: Settings
  readonly handle: (entries: readonly ClaimedEntry[]) => Promise<void>
}

/** Runs what no read brings. The answer ends it. */
function lookAround({ port, claims, settings, handle }: Looking): () => void {
  const { runtime, logger } = port
  const { concurrency, transaction } = port.settings
  const count =
    transaction === 'batch' ? settings.batchSize : Math.max(LOOK_ENTRIES, 2 * concurrency)
  let cancel: () => void = () => undefined
  let isOver = false
  /** Whether there may be more. */
  const claim = async (stream: string): Promise<boolean> => {
    const { entries, isMore } = await claims.take(stream, count)
    if (entries.length > 0) await handle(entries)
    return isMore
  }
  const look = async (): Promise<void> => {
    try {
      let left = settings.streams
      while (left.length > 0 && !isOver) {
        const more: string[] = []
        for (const stream of left) if (await claim(stream)) more.push(stream)
        // While the store is down every entry that is claimed is parked again.
        left = pauseOf(port) === undefined ? more : []
      }
    } catch (error) {
      const fields = { queue: settings.queue, reason: classifyError(error).text }
      logger.warn(fields, 'parked and abandoned entries could not be claimed; this is tried again')
    }
    again()
  }
  const again = (): void => {
    if (isOver) return
    cancel = runtime.setTimer(() => void look(), LOOK_MS, { keepAlive: false })
  }
  again()
  return () => {
    isOver = true
    cancel()
  }
}

function notAReply(): ConfigurationError {
  return new ConfigurationError(
    'Expected the answer of XREADGROUP: a list of streams with their entries, or null. For entries of XAUTOCLAIM write ' +
      '`[[stream, entries]]`.',
  )
}
