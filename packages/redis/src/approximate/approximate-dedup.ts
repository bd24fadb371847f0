import { randomUUID } from 'node:crypto'
import { type ApproximateDedup, ConfigurationError, type LeaseStore } from '@onceward/core'
import { refuseUnknownNames, shown } from '@onceward/core/adapter'
import {
  type Claim,
  type ClaimResult,
  type EventId,
  type LeaseRegistration,
  type LeaseSession,
  systemRuntime,
} from '@onceward/core/ports'
import { type Evaluate, type RedisLike, toEvaluate } from '../client.ts'
import { toStoreError } from '../errors.ts'
import { DEFAULTS } from '../options.ts'
import { inBudget } from '../time-budget.ts'
import { BLOOM_FILTER, EXACT } from './lua.ts'

/** Options of {@link approximateDedup}. */
export interface ApproximateDedupOptions {
  /** ioredis, iovalkey or node-redis; single node, Sentinel or Cluster. */
  readonly redis: RedisLike
  /** How long an event is remembered, ms: at least this, and up to one slice of time longer. */
  readonly windowMs: number
  /**
   * Slices of time that the window has. More of them forget more exactly, and make each event ask more keys.
   * @defaultValue 4
   */
  readonly buckets?: number | undefined
  /**
   * Bloom filters in place of exact sets, and how often they may take a new event for a done one, which is then lost: 0.01
   * is one of a hundred. Left out: sets of 8-byte ids, where that is about one of 10^17 for a million ids.
   * @defaultValue none: exact sets
   */
  readonly errorRate?: number | undefined
}

/** How often new events were taken for done ones, measured with random ids that no event has. */
export interface FalsePositives {
  /** Random ids that were asked for, one beside each call. */
  readonly probes: number
  /** How many of them Redis said to know. */
  readonly hits: number
  /** The rate that is not exceeded by design. */
  readonly bound: number
}

/** An {@link ApproximateDedup} in Redis. */
export interface RedisDedup extends ApproximateDedup {
  /** Of this process. `meterDedups` of `@onceward/otel` exports it as metrics: watch `hits / probes`. */
  falsePositives(): FalsePositives
}

const DEFAULT_BUCKETS = 4
const MOST_BUCKETS = 60
const YEAR_MS = 31_536_000_000
const BUDGET_MS = 1_000
/** Ids in the first filter of a shard. */
const FIRST_ROOM = 256
/** Failed events whose attempts a process counts. */
const MOST_COUNTED = 10_000

/**
 * Drops most copies of events of telemetry: clicks, metrics, log lines. Nothing is locked and no attempt is stored, so a copy
 * that comes while its event runs, or after a crash, counts twice. An event that is taken for a done one is lost: never use
 * it for anything that matters. It is refused beside an `inbox` or `leases`.
 *
 * @throws {@link ConfigurationError} naming the option that cannot work.
 *
 * @example
 * ```ts
 * import { createGuard } from '@onceward/core'
 * import { approximateDedup } from '@onceward/redis'
 *
 * const clicks = createGuard(
 *   { consumer: 'clicks', dedup: approximateDedup({ redis, windowMs: 3_600_000 }) },
 *   async () => {
 *     await redis.incr('clicks')
 *   },
 * )
 * ```
 */
export function approximateDedup(options: ApproximateDedupOptions): RedisDedup {
  const { buckets = DEFAULT_BUCKETS, errorRate, redis, windowMs } = checked(options)
  const count = { probes: 0, hits: 0 }
  const sliceMs = Math.ceil(windowMs / buckets)
  // Every slice is asked, the one that is being filled too, and layers of a filter add up to twice the first.
  const firstRate = errorRate === undefined ? undefined : errorRate / (2 * (buckets + 1))
  const shared = { evaluate: toEvaluate(redis, 'approximateDedup'), sliceMs, buckets, firstRate }
  const open = async ({ consumer }: Pick<LeaseRegistration, 'consumer'>): Promise<LeaseSession> =>
    sessionOf(new RememberedIds({ ...shared, consumer }), count)
  const unopened = (): Promise<never> =>
    Promise.reject(new ConfigurationError('An approximate dedup is used by a guard alone.'))
  const store: LeaseStore = {
    ...{ open, claim: unopened, renew: unopened, complete: unopened },
    ...{ fail: unopened, release: unopened, bury: unopened },
  }
  return {
    asLeases: () => store,
    falsePositives: () => ({ ...count, bound: errorRate ?? 2 ** -64 }),
  }
}

interface RememberedParts {
  readonly evaluate: Evaluate
  readonly sliceMs: number
  readonly buckets: number
  readonly firstRate: number | undefined
  readonly consumer: string
}

class RememberedIds {
  readonly #parts: RememberedParts

  constructor(parts: RememberedParts) {
    this.#parts = parts
  }

  async has(id: EventId): Promise<boolean> {
    return Number(await this.#run('has', id)) === 1
  }

  async add(id: EventId): Promise<void> {
    await this.#run('add', id)
  }

  async #run(script: 'has' | 'add', id: EventId): Promise<unknown> {
    const { buckets, evaluate, firstRate, sliceMs } = this.#parts
    const bytes = Buffer.from(id.replaceAll('-', ''), 'hex')
    const scripts = firstRate === undefined ? EXACT : BLOOM_FILTER
    const ofId =
      firstRate === undefined
        ? [String(bytes.readBigInt64BE(8))]
        : [
            ...[String(bytes.readUInt32BE(8)), String(bytes.readUInt32BE(12))],
            ...[String(FIRST_ROOM), String(firstRate)],
          ]
    const args = [String(sliceMs), String(buckets), ...ofId]
    try {
      const asked = evaluate({ ...scripts[script], keys: [this.#shardOf(bytes)], args })
      return await inBudget(asked, { runtime: systemRuntime, budgetMs: BUDGET_MS })
    } catch (error) {
      throw toStoreError(error, `dedup ${script}`, 'approximateDedup')
    }
  }

  /**
   * 256 partitions, as of leases, so that a Cluster shares the work. Exact sets have 64 parts in each: Redis stores a set of up
   * to 512 integers (`set-max-intset-entries`) in eight bytes for each, enough for eight million ids of a slice.
   */
  #shardOf(bytes: Buffer): string {
    const { consumer, firstRate, sliceMs } = this.#parts
    const partition = bytes.toString('hex', 0, 1)
    const part = firstRate === undefined ? (bytes[1] as number) % 64 : 'b'
    return `{o:${DEFAULTS.namespace}:${partition}}t${consumer}:${sliceMs.toString(36)}:${part}:`
  }
}

function sessionOf(ids: RememberedIds, count: { probes: number; hits: number }): LeaseSession {
  const attempts = new Map<EventId, number>()
  const probe = async (): Promise<void> => {
    const isKnown = await ids.has(randomUUID() as EventId)
    count.probes += 1
    count.hits += isKnown ? 1 : 0
  }
  const claim = async ({ id, maxAttempts = 0 }: Claim): Promise<ClaimResult> => {
    if (await ids.has(id)) return { kind: 'duplicate' }
    const before = attempts.get(id) ?? 0
    if (maxAttempts > 0 && before >= maxAttempts) return { kind: 'dead', reason: 'attempts-spent' }
    return { kind: 'acquired', by: before === 0 ? 'first' : 'retry', attempt: before + 1 }
  }
  const forget = (id: EventId): 'held' => {
    attempts.delete(id)
    return 'held'
  }
  return {
    claim: async (claims) => {
      const [answers] = await Promise.all([Promise.all(claims.map(claim)), probe()])
      return answers
    },
    renew: async (held) => held.map(() => 'held'),
    complete: async (done) => {
      await Promise.all(done.map(({ id }) => ids.add(id)))
      return done.map(({ id }) => forget(id))
    },
    fail: async (failed) =>
      failed.map(({ id }) => {
        const before = attempts.get(id) ?? 0
        // The oldest goes.
        const [oldest] = attempts.size >= MOST_COUNTED ? attempts.keys() : []
        if (oldest !== undefined) attempts.delete(oldest)
        attempts.set(id, before + 1)
        return 'held'
      }),
    release: async (held) => held.map(() => 'held'),
    // The dead letter is at the broker; a copy of it is dead again until the process forgets its attempts.
    bury: async (dead) => dead.map(() => 'held'),
  }
}

function checked(options: ApproximateDedupOptions): ApproximateDedupOptions {
  refuseUnknownNames('approximateDedup', options, {
    ...{ redis: true, windowMs: true, buckets: true, errorRate: true },
  })
  const { buckets = DEFAULT_BUCKETS, errorRate, windowMs } = options
  const whole = (value: unknown, least: number, most: number): boolean =>
    Number.isInteger(value) && Number(value) >= least && Number(value) <= most
  const problems: readonly (readonly [boolean, string, unknown])[] = [
    [
      whole(windowMs, 1_000, YEAR_MS),
      `\`windowMs\` to be whole milliseconds from 1000 to ${YEAR_MS}`,
      windowMs,
    ],
    [
      whole(buckets, 1, MOST_BUCKETS),
      `\`buckets\` to be an integer from 1 to ${MOST_BUCKETS}`,
      buckets,
    ],
    [
      errorRate === undefined || (errorRate >= 1e-6 && errorRate <= 0.5),
      '`errorRate` to be from 0.000001 to 0.5',
      errorRate,
    ],
  ]
  for (const [isRight, expected, value] of problems) {
    if (isRight) continue
    throw new ConfigurationError(`Expected ${expected}, got \`${shown(String(value))}\`.`)
  }
  return options
}
