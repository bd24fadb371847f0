import type { Logger } from '@onceward/core'
import type { MaybeAsync } from '@onceward/core/adapter'
import type { Runtime } from '@onceward/core/ports'
import type { ClaimedEntry, Neighbours, StreamApi, StreamEntry } from './client.ts'
import type { Received } from './delivery.ts'
import { classifyError } from './errors.ts'
import type { Settings } from './options.ts'

export interface OwnedEntriesOptions {
  readonly api: Pick<StreamApi, 'renew'>
  readonly runtime: Runtime
  readonly logger: Logger
  readonly renewMs: number
  /** Another consumer owns the entry now. */
  readonly onLost?: (received: Received) => void
}

/** Its run decides by its transaction, whoever owns the entry. */
const LOST = 'an entry was not renewed in time, and another consumer owns it now'

/**
 * The entries of this consumer's pending list that are in hand. They are renewed as long as they are, so that no other
 * consumer claims them.
 */
export class OwnedEntries {
  onLost: ((received: Received) => void) | undefined
  readonly #options: OwnedEntriesOptions
  readonly #owned = new Map<string, Received>()
  #call: Promise<void> | undefined
  #cancel: (() => void) | undefined

  constructor(options: OwnedEntriesOptions) {
    this.#options = options
    this.onLost = options.onLost
  }

  get size(): number {
    return this.#owned.size
  }

  has(entry: Pick<StreamEntry, 'stream' | 'id'>): boolean {
    return this.#owned.has(keyOf(entry))
  }

  hold(received: Received): void {
    this.#owned.set(keyOf(received.entry), received)
    this.#arm()
  }

  /** Ends the renewal of an entry. Waits for one under way, which would fail or take a parked entry back. */
  release({ entry }: Received): MaybeAsync<void> {
    this.#owned.delete(keyOf(entry))
    return this.#call
  }

  stop(): void {
    this.#cancel?.()
    this.#cancel = undefined
  }

  #arm(): void {
    const { runtime, renewMs } = this.#options
    this.#cancel ??= runtime.setTimer(() => this.#tick(), renewMs, { keepAlive: false })
  }

  #tick(): void {
    this.#cancel = undefined
    if (this.#owned.size === 0) return
    this.#arm()
    // The one before may still wait for its answer.
    this.#call ??= this.#renewAll().finally(() => {
      this.#call = undefined
    })
  }

  async #renewAll(): Promise<void> {
    const streams = Map.groupBy(this.#owned.values(), ({ entry }) => entry.stream)
    const calls = [...streams].map(([stream, all]) => this.#renew(stream, all))
    await Promise.all(calls)
  }

  async #renew(stream: string, all: readonly Received[]): Promise<void> {
    const { api, logger } = this.#options
    try {
      const lost = new Set(
        await api.renew(
          stream,
          all.map(({ entry }) => entry.id),
        ),
      )
      for (const received of all.filter(({ entry }) => lost.has(entry.id))) {
        // Settled meanwhile.
        if (this.#owned.get(keyOf(received.entry)) !== received) continue
        this.#owned.delete(keyOf(received.entry))
        logger.warn({ queue: stream, id: received.entry.id }, LOST)
        this.onLost?.(received)
      }
    } catch (error) {
      const fields = { queue: stream, entries: all.length, reason: classifyError(error).text }
      logger.warn(fields, 'received entries were not renewed; the next period tries again')
    }
  }
}

const keyOf = ({ stream, id }: Pick<StreamEntry, 'stream' | 'id'>): string => `${id} ${stream}`

export interface ClaimsOptions {
  readonly api: Pick<StreamApi, 'claim' | 'neighbours'>
  readonly settings: Pick<Settings, 'group' | 'consumer' | 'keepEntries'>
  readonly runtime: Runtime
  readonly logger: Logger
}

/** Entries that were claimed. */
export interface Taken {
  readonly entries: readonly ClaimedEntry[]
  /** There may be more at once. */
  readonly isMore: boolean
}

/** Neighbours are looked for this often. */
const NEIGHBOURS_MS = 5_000

/** Takes the entries that no read brings: parked ones that are due, and those of consumers that died. */
export class Claims {
  readonly #options: ClaimsOptions
  readonly #cursors = new Map<string, string>()
  readonly #lookAtMs = new Map<string, number>()
  /** What was said last about each stream. */
  readonly #said = new Map<string, string>()

  constructor(options: ClaimsOptions) {
    this.#options = options
  }

  async take(stream: string, count: number): Promise<Taken> {
    const { api, logger } = this.#options
    await this.#lookAround(stream)
    const cursor = this.#cursors.get(stream) ?? '0-0'
    const { cursor: next, entries, gone } = await api.claim({ stream, cursor, count })
    this.#cursors.set(stream, next)
    for (const id of gone) logger.error({ queue: stream, id }, GONE)
    return { entries, isMore: entries.length >= count || next !== '0-0' }
  }

  async #lookAround(stream: string): Promise<void> {
    const { api, runtime } = this.#options
    const nowMs = runtime.monotonic()
    if (nowMs < (this.#lookAtMs.get(stream) ?? nowMs)) return
    this.#lookAtMs.set(stream, nowMs + NEIGHBOURS_MS)
    this.#tell(stream, await api.neighbours(stream))
  }

  /** Each thing is said when it begins, and when it has changed. */
  #tell(stream: string, { adrift = 0, consumers, groups }: Neighbours): void {
    const { settings, logger } = this.#options
    const { consumer, group, keepEntries } = settings
    const say = (what: string, value: string, message: string): void => {
      const key = `${what} ${stream}`
      const isNew = value !== '' && this.#said.get(key) !== value
      this.#said.set(key, value)
      if (isNew) logger.error({ queue: stream, group, consumer, [what]: value }, message)
    }
    say('otherGroups', keepEntries ? '' : groups.join(', '), SHARED_STREAM)
    say('otherConsumers', consumers.join(', '), SHARED_GROUP)
    say('entries', adrift > 0 ? String(adrift) : '', ADRIFT)
  }
}

const GONE =
  'an entry was deleted or trimmed before it was settled, and its event may be lost: trim less, or by XTRIM MINID of what is settled'
const SHARED_STREAM =
  'another group reads the stream, so settled entries stay in it: set keepEntries to true for each of its consumers, and trim it by XADD MINID or XTRIM'
const SHARED_GROUP =
  'consumers of different names share a group, so each entry reaches only one of them: give each of them a group of its own'
const ADRIFT =
  'entries of the stream are neither pending nor parked, and the group will not deliver them: a name with pending entries was deleted (XGROUP DELCONSUMER), or the group began behind them. Add them again, or delete them if they are settled'

interface Waiting {
  readonly stream: string
  readonly id: string
  readonly settled: (isOwned: boolean) => void
  readonly failed: (error: unknown) => void
}

/** An ack of its own costs about what a small event does, so it pays to wait for others. The entry is hidden meanwhile. */
const ACK_WINDOW_MS = 5
/** Acks that do not wait for more. */
const MOST_ACKS = 100

/** Acks the entries that are settled within some milliseconds by one script per stream. */
export class Acks {
  readonly #api: Pick<StreamApi, 'ack'>
  readonly #runtime: Runtime
  #waiting: Waiting[] = []
  #cancel: (() => void) | undefined

  constructor(api: Pick<StreamApi, 'ack'>, runtime: Runtime) {
    this.#api = api
    this.#runtime = runtime
  }

  /** Whether this consumer still owned the entry, and so the entry is acked. */
  add({ stream, id }: Pick<StreamEntry, 'stream' | 'id'>): Promise<boolean> {
    const { promise, resolve, reject } = Promise.withResolvers<boolean>()
    this.#waiting.push({ stream, id, settled: resolve, failed: reject })
    if (this.#waiting.length >= MOST_ACKS) this.#flush()
    else this.#cancel ??= this.#runtime.setTimer(() => this.#flush(), ACK_WINDOW_MS)
    return promise
  }

  #flush(): void {
    this.#cancel?.()
    this.#cancel = undefined
    const streams = Map.groupBy(this.#waiting, ({ stream }) => stream)
    this.#waiting = []
    for (const [stream, waiting] of streams) void this.#ack(stream, waiting)
  }

  async #ack(stream: string, waiting: readonly Waiting[]): Promise<void> {
    const ids = waiting.map(({ id }) => id)
    try {
      const lost = new Set(await this.#api.ack(stream, ids))
      for (const { id, settled } of waiting) settled(!lost.has(id))
    } catch (error) {
      for (const { failed } of waiting) failed(error)
    }
  }
}
