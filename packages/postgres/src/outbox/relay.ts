import { ConfigurationError, type Consumption, type Health } from '@onceward/core'
import { endsWithin, hasMethod } from '@onceward/core/adapter'
import type { PoolConfig } from 'pg'
import type { PoolLike } from '../client.ts'
import { connectionOf, type InboxConnection } from '../driver/inbox-connection.ts'
import { quotedSchema } from '../statements/schema-name.ts'
import { onSent } from '../transaction/outbox-wake.ts'
import { DestinationLoop, type Lease } from './destination-loop.ts'
import { type RelayOptions, type RelaySettings, relaySettings } from './options.ts'
import { type DestinationStatus, RelayStore, type RelayTables } from './relay-store.ts'

/** Part of a lease after which it is renewed. */
const RENEWALS = 3
/** After a failed renewal, ms. */
const RETRY_MS = 500
/** The tables are read at most so often for figures, ms. */
const LOOK_MS = 15_000
/** Messages that no relay has are looked for so often, and are reported if they are so old, ms. */
const UNSERVED_MS = 3_000
/** A look that takes long, because much waits, is repeated after so many times as long. */
const LOOK_PART = 100

/** The messages to one destination, for metrics. */
export interface OutboxFigures extends DestinationStatus {
  /** Messages that this relay has published. */
  readonly published: number
  /** Calls in which the destination has refused a message of this relay. */
  readonly failed: number
}

/** A running relay. */
export interface Relay extends Consumption {
  /**
   * The waiting messages by destination, read from the tables at most every 15 seconds: also messages to destinations that this
   * relay does not have. Rejects while the database does not answer.
   */
  figures(): Promise<readonly OutboxFigures[]>
}

/**
 * Publishes the messages that handlers have sent, in any number of processes: relays share the work. A message is deleted
 * after its broker has confirmed it, so a relay that dies publishes again, and guards behind it drop the copy. A message
 * that its destination refuses holds the later ones of its key, and becomes a dead letter after `attempts`.
 *
 * Resolves when the tables were checked.
 *
 * @throws {@link ConfigurationError} if the options or the tables do not fit.
 * @throws {@link StoreUnavailableError} if PostgreSQL cannot be reached.
 *
 * @example
 * ```ts
 * import { startRelay } from '@onceward/postgres/outbox'
 *
 * const relay = await startRelay({
 *   pool,
 *   destinations: {
 *     log: {
 *       batch: 100,
 *       publish: async (messages) => messages.map(({ id }) => void console.log(id)),
 *     },
 *   },
 * })
 * await relay.drain()
 * ```
 */
export async function startRelay(options: RelayOptions): Promise<Relay> {
  const settings = relaySettings(options)
  const { close, pool, schema } = await poolOf(options, settings)
  const relay = new RunningRelay(settings, {
    store: new RelayStore(pool, quotedSchema(schema), [...settings.destinations.keys()]),
    signal: options.signal,
    close,
    onSent,
  })
  try {
    await relay.start()
  } catch (error) {
    await close()
    throw error
  }
  return relay
}

interface OwnPool {
  readonly pool: PoolLike
  readonly schema: string | undefined
  readonly close: () => Promise<void>
}

async function poolOf(
  options: RelayOptions,
  { destinations, logger }: RelaySettings,
): Promise<OwnPool> {
  const { connectionString, pool, schema } =
    options.inbox === undefined ? options : { ...placeOf(options.inbox), ...withSchema(options) }
  if (hasMethod(pool, 'query')) {
    return { pool: pool as PoolLike, schema, close: () => Promise.resolve() }
  }
  // Only here, because other clients need no pg.
  const { default: pg } = await import('pg')
  const max = destinations.size + 2
  const config = {
    connectionString,
    ...(pool as PoolConfig | undefined),
    max,
    application_name: 'onceward relay',
  }
  const own = new pg.Pool(config)
  own.on('error', ({ message }) => logger.debug({ message }, 'PostgreSQL ended an idle connection'))
  return { pool: own, schema, close: () => own.end() }
}

const withSchema = ({ schema }: RelayOptions): Pick<RelayOptions, 'schema'> =>
  schema === undefined ? {} : { schema }

function placeOf(inbox: object): InboxConnection {
  const place = connectionOf(inbox)
  if (place !== undefined) return place
  throw new ConfigurationError(
    'Expected `inbox` of startRelay to be made with a `connectionString` or a pool of pg. Give startRelay a `connectionString` instead.',
  )
}

const NOTHING = { waiting: 0, delayed: 0, refused: 0, dead: 0, isServed: true, oldestWaitingMs: 0 }

interface RelayParts {
  readonly store: RelayTables
  readonly signal: AbortSignal | undefined
  readonly close: () => Promise<void>
  readonly onSent: typeof onSent
}

/** Exported for the simulation, which has tables and brokers of its own. */
export class RunningRelay implements Relay {
  readonly stopped: Promise<void>
  readonly #settings: RelaySettings
  readonly #parts: RelayParts
  readonly #end = Promise.withResolvers<void>()
  readonly #loops: readonly DestinationLoop[]
  #phase: Health['state'] = 'running'
  #drained: Promise<void> | undefined
  #buckets: ReadonlyMap<string, readonly number[]> = new Map()
  /** On the monotonic clock, counted from before the statement, so it ends no later than the database says. */
  #leasedUntilMs = 0
  #storeError: unknown
  #stopRenewing: (() => void) | undefined
  #renewing: Promise<void> = Promise.resolve()
  #stopWaking: (() => void) | undefined
  #status: Promise<readonly DestinationStatus[]> | undefined
  #statusUntilMs = 0
  #unserved: readonly string[] = []
  #watchAtMs = 0
  #watching: Promise<void> = Promise.resolve()

  constructor(settings: RelaySettings, parts: RelayParts) {
    this.stopped = this.#end.promise
    this.#settings = settings
    this.#parts = parts
    const leaseOf = (name: string): Lease => ({
      buckets: () => (this.#isLeased() ? (this.#buckets.get(name) ?? []) : []),
      mayGoOn: () => this.#phase === 'running' && this.#isLeased(),
    })
    this.#loops = [...settings.destinations].map(
      ([name, destination]) =>
        new DestinationLoop({
          ...{ name, destination, settings, store: parts.store, lease: leaseOf(name) },
        }),
    )
  }

  async start(): Promise<void> {
    const { onSent, signal, store } = this.#parts
    const { leaseMs, logger, runtime } = this.#settings
    await store.check()
    // Not at once: it counts all that waits, and what a relay finds at its start is to leave first.
    this.#watchAtMs = runtime.monotonic() + Math.min(leaseMs, UNSERVED_MS)
    await this.#renew()
    logger.info(
      { destinations: this.#loops.map(({ name }) => name) },
      'the relay publishes messages of the outbox',
    )
    this.#stopWaking = onSent(() => {
      for (const loop of this.#loops) loop.wake()
    })
    for (const loop of this.#loops) loop.start()
    if (signal?.aborted === true) void this.drain()
    else signal?.addEventListener('abort', () => void this.drain(), { once: true })
  }

  #isLeased(): boolean {
    return this.#settings.runtime.monotonic() < this.#leasedUntilMs
  }

  async #renew(): Promise<void> {
    const { leaseMs, logger, runtime } = this.#settings
    const askedAtMs = runtime.monotonic()
    let nextMs = leaseMs / RENEWALS
    try {
      this.#buckets = await this.#parts.store.lease(leaseMs)
      this.#leasedUntilMs = askedAtMs + leaseMs
      this.#storeError = undefined
      this.#watching = this.#watch()
    } catch (error) {
      if (this.#storeError === undefined)
        logger.warn({ err: error }, 'the relay cannot renew its lease and tries again')
      this.#storeError = error
      nextMs = RETRY_MS
    }
    if (this.#phase !== 'running') return
    this.#stopRenewing = runtime.setTimer(() => {
      this.#renewing = this.#renew()
    }, nextMs)
  }

  health(): Health {
    const outages = this.#loops.flatMap((loop) => loop.outage() ?? [])
    const notices = this.#loops.flatMap((loop) => loop.notice() ?? [])
    const isDown = this.#storeError !== undefined
    const reasons = [
      ...(isDown ? ['PostgreSQL does not answer'] : []),
      ...outages.map(({ reason }) => `down: ${reason}`),
      ...notices,
      ...this.#unserved.map((name) => `${name}: messages wait, and no relay has this destination`),
    ]
    const progress = this.#loops.flatMap((loop) => loop.lastProgressAt ?? [])
    const [first, ...others] = progress
    const lastProgressAt = others.reduce((a, b) => (a && a > b ? a : b), first)
    const areDown = outages.length === this.#loops.length
    const working = isDown ? 'paused' : areDown ? 'recovering' : 'running'
    const state = this.#phase === 'running' ? working : this.#phase
    return {
      state,
      inFlight: this.#loops.reduce((sum, { inFlight }) => sum + inFlight, 0),
      settleFailures: this.#loops.reduce((sum, { refused }) => sum + refused, 0),
      ...(outages.length > 0 && { outages }),
      ...(lastProgressAt !== undefined && { lastProgressAt }),
      ...(reasons.length > 0 && { reason: reasons.join('; ') }),
    }
  }

  async figures(): Promise<readonly OutboxFigures[]> {
    const loops = new Map(this.#loops.map((loop) => [loop.name, loop]))
    const found = new Map((await this.#look()).map((status) => [status.destination, status]))
    const names = [...new Set([...loops.keys(), ...found.keys()])]
    return names.map((destination) => ({
      ...(found.get(destination) ?? { destination, ...NOTHING }),
      published: loops.get(destination)?.published ?? 0,
      failed: loops.get(destination)?.refused ?? 0,
    }))
  }

  #look(): Promise<readonly DestinationStatus[]> {
    const nowMs = this.#settings.runtime.monotonic()
    if (this.#status !== undefined && nowMs < this.#statusUntilMs) return this.#status
    this.#statusUntilMs = nowMs + LOOK_MS
    const status = this.#parts.store.status()
    this.#status = status
    status.catch(() => {
      if (this.#status === status) this.#status = undefined
    })
    return status
  }

  /** A name that was mistyped, or a destination that was forgotten: its messages would wait in silence. */
  async #watch(): Promise<void> {
    const { logger, runtime } = this.#settings
    const nowMs = runtime.monotonic()
    if (nowMs < this.#watchAtMs) return
    this.#watchAtMs = Number.POSITIVE_INFINITY
    this.#statusUntilMs = 0
    // What reads and publishes says that the database is down.
    const found = await this.#look().catch(() => [])
    const answeredAtMs = runtime.monotonic()
    this.#watchAtMs = answeredAtMs + Math.max(UNSERVED_MS, (answeredAtMs - nowMs) * LOOK_PART)
    const unserved = found.filter(
      ({ isServed, oldestWaitingMs }) => !isServed && oldestWaitingMs >= UNSERVED_MS,
    )
    for (const { destination, waiting } of unserved) {
      if (this.#unserved.includes(destination)) continue
      logger.warn(
        { destination, waiting },
        'messages of the outbox wait for a destination that no relay has: start a relay that has it, or correct the name in `outbox.send`',
      )
    }
    this.#unserved = unserved.map(({ destination }) => destination)
  }

  drain(): Promise<void> {
    this.#drained ??= this.#drain()
    return this.#drained
  }

  async #drain(): Promise<void> {
    const { destinations, drainMs, logger, runtime } = this.#settings
    this.#phase = 'draining'
    this.#stopWaking?.()
    this.#stopRenewing?.()
    const ended = Promise.all([
      this.#renewing,
      this.#watching,
      ...this.#loops.map((loop) => loop.stop()),
    ])
    await endsWithin(runtime, ended, drainMs)
    const ending = Promise.all([
      this.#parts.store.giveBack(),
      ...[...destinations.values()].map((destination) => destination.close?.()),
    ]).then(this.#parts.close, (error: unknown) => {
      logger.warn({ err: error }, 'the relay has not ended cleanly; its leases end by themselves')
      return this.#parts.close()
    })
    await endsWithin(runtime, ending, drainMs + RETRY_MS)
    this.#phase = 'stopped'
    this.#end.resolve()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.drain()
  }
}
