import { ConfigurationError, type WrappedConsumption } from '@onceward/core'
import {
  type Guard,
  type GuardPort,
  portOf,
  registerPublisher,
  wrapMessages,
} from '@onceward/core/adapter'
import type { ClaimedEntry, StreamApi, StreamClient, StreamEntry } from './client.ts'
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
import { createSettleContext, settle } from './settle.ts'

/** What {@link wrapStream} returns: takes what XREADGROUP answered, and resolves when all of it is settled. */
export interface WrappedStream {
  (reply: StreamReply | undefined): Promise<void>
  readonly consumption: WrappedConsumption
}

/** Parked entries that are due, and entries of others, are looked for this often. */
const LOOK_MS = 1_000
/** Entries that one look takes. */
const LOOK_ENTRIES = 10

/**
 * The guard for entries that your own XREADGROUP loop reads.
 *
 * The same engine as `consumeStream`: entries are renewed while they are worked on, acked, parked or sent to the
 * dead-letter stream when their settlement is stored. The answer resolves after that. Entries that were parked, and those
 * of consumers that died, are claimed and run by the wrap itself, once a second.
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
    settling: context.counts,
    finish: async () => {
      stopLooking()
      context.owned.stop()
      for (const each of unregister) each()
      await api.close()
    },
  })
  const stopLooking = lookAround({ port, api, settings, handle })
  const wrapped = async (reply: StreamReply | undefined): Promise<void> => {
    if (typeof (reply ?? {}) !== 'object') throw notAReply()
    await handle(entriesOf(reply))
  }
  return Object.assign(wrapped, { consumption: handle.consumption })
}

interface Looking {
  readonly port: GuardPort
  readonly api: StreamApi
  readonly settings: Settings
  readonly handle: (entries: readonly ClaimedEntry[]) => Promise<void>
}

/** Runs what no read brings. The answer ends it. */
function lookAround({ port, api, settings, handle }: Looking): () => void {
  const { runtime, logger } = port
  const cursors = new Map<string, string>()
  let cancel: () => void = () => undefined
  let isOver = false
  const claim = async (stream: string): Promise<void> => {
    const cursor = cursors.get(stream) ?? '0-0'
    const claimed = await api.claim({ stream, cursor, count: LOOK_ENTRIES })
    cursors.set(stream, claimed.cursor)
    if (claimed.entries.length > 0) await handle(claimed.entries)
  }
  const look = async (): Promise<void> => {
    try {
      for (const stream of settings.streams) await claim(stream)
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
