import {
  ConfigurationError,
  type Destination,
  type Inbox,
  type Logger,
  type Seal,
} from '@onceward/core'
import {
  consoleLogger,
  hasMethod,
  type KnownNames,
  refuseUnknownNames,
  shown,
} from '@onceward/core/adapter'
import { DESTINATION_NAME, isDestination, type Runtime, systemRuntime } from '@onceward/core/ports'
import type { PoolLike } from '../client.ts'
import { refuseUnfitSeal } from '../statements/seal-option.ts'

/** Options of `startRelay`. */
export interface RelayOptions {
  /** Of the database. The relay makes a pool of its own, which needs pg. Give this, `pool` or `inbox`. */
  readonly connectionString?: string | undefined
  /** A pool of pg. The relay uses one connection for each destination and two besides. */
  readonly pool?: PoolLike | undefined
  /**
   * Reads the tables of this inbox, over the pool or the connection string that it was made with. Inboxes of Kysely and
   * postgres.js have neither.
   */
  readonly inbox?: Inbox<unknown> | undefined
  /** Where messages go, by the name that `outbox.send({ to })` uses. Other messages stay. */
  readonly destinations: Readonly<Record<string, Destination>>
  /**
   * The `seal` of the guards whose messages are sealed. Without it, or without the key of a message, that message and the later
   * ones of its key wait, and `health()` says so. @defaultValue none
   */
  readonly seal?: Seal | undefined
  /** Aborted means drain. */
  readonly signal?: AbortSignal | undefined
  /** Schema of the tables. @defaultValue `onceward` */
  readonly schema?: string | undefined
  /** Calls in which a destination refuses a message, before it is a dead letter. @defaultValue 10, or none with `giveUpAfterMs` */
  readonly attempts?: number | undefined
  /**
   * Longest wait of a message after it was refused for the first time, ms. It doubles with each further refusal. Each wait is
   * between half of that time and the whole. @defaultValue 1000
   */
  readonly baseMs?: number | undefined
  /** Longest wait between two attempts, ms. @defaultValue 300000 */
  readonly maxMs?: number | undefined
  /**
   * A message that is refused so long after its first refusal is a dead letter, ms. With `attempts`, whichever comes first.
   * @defaultValue none
   */
  readonly giveUpAfterMs?: number | undefined
  /** Calls of one destination at the same time. @defaultValue 8 */
  readonly concurrency?: number | undefined
  /** Longest wait for the confirmation of a broker, ms. @defaultValue 30000 */
  readonly callMs?: number | undefined
  /** How long a relay that is gone keeps its messages from the others, ms. @defaultValue 10000 */
  readonly leaseMs?: number | undefined
  /** Longest wait for calls that run when the relay drains, ms. @defaultValue 5000 */
  readonly drainMs?: number | undefined
  /** A pino instance or `console`. @defaultValue as that of guards */
  readonly logger?: Logger | undefined
  /** Time, randomness and ids, for simulations. @defaultValue `systemRuntime` */
  readonly runtime?: Runtime | undefined
}

const NAMES: KnownNames<RelayOptions> = {
  ...{ connectionString: true, pool: true, inbox: true, destinations: true },
  ...{ signal: true, schema: true, seal: true },
  ...{ attempts: true, baseMs: true, maxMs: true, giveUpAfterMs: true },
  ...{ concurrency: true, callMs: true, leaseMs: true, drainMs: true },
  ...{ logger: true, runtime: true },
}

/** After defaults. */
export interface RelaySettings {
  readonly destinations: ReadonlyMap<string, Destination>
  readonly attempts: number
  readonly baseMs: number
  readonly maxMs: number
  /** Infinity: never for its age. */
  readonly giveUpAfterMs: number
  readonly concurrency: number
  readonly callMs: number
  readonly leaseMs: number
  readonly drainMs: number
  readonly seal?: Seal | undefined
  readonly logger: Logger
  readonly runtime: Runtime
}

const TWELVE_HOURS_MS = 43_200_000
const YEAR_MS = 31_536_000_000

/** docs/configuration.md shows them. */
export const RELAY_DEFAULTS: Readonly<
  Record<Exclude<keyof typeof RELAY_RANGES, 'giveUpAfterMs'>, number>
> = {
  ...{ attempts: 10, baseMs: 1_000, maxMs: 300_000 },
  ...{ concurrency: 8, callMs: 30_000, leaseMs: 10_000, drainMs: 5_000 },
}

export const RELAY_RANGES: Readonly<
  Record<
    | 'attempts'
    | 'baseMs'
    | 'maxMs'
    | 'giveUpAfterMs'
    | 'concurrency'
    | 'callMs'
    | 'leaseMs'
    | 'drainMs',
    readonly [least: number, most: number]
  >
> = {
  attempts: [1, 1_000],
  baseMs: [0, TWELVE_HOURS_MS],
  maxMs: [0, TWELVE_HOURS_MS],
  giveUpAfterMs: [1_000, YEAR_MS],
  concurrency: [1, 1_000],
  callMs: [100, 600_000],
  leaseMs: [1_000, 600_000],
  drainMs: [0, 600_000],
}

/** More than a message can have. */
const UNLIMITED = 2_000_000_000

/** @throws {@link ConfigurationError} */
export function relaySettings(options: RelayOptions): RelaySettings {
  refuseUnknownNames('startRelay', options, NAMES)
  const { connectionString, destinations, inbox, pool } = options
  if ([connectionString, inbox, pool].filter((given) => given !== undefined).length !== 1) {
    throw new ConfigurationError(
      'startRelay expects one of `connectionString`, `pool` and `inbox`.',
    )
  }
  const isTimed = options.giveUpAfterMs !== undefined
  const numbers = {
    ...RELAY_DEFAULTS,
    ...(isTimed ? { attempts: UNLIMITED } : {}),
    giveUpAfterMs: Number.POSITIVE_INFINITY,
  }
  for (const [name, [least, most]] of Object.entries(RELAY_RANGES) as [
    keyof typeof RELAY_RANGES,
    readonly [number, number],
  ][]) {
    const value = options[name]
    if (value === undefined) continue
    if (!Number.isInteger(value) || value < least || value > most) {
      throw new ConfigurationError(
        `Expected \`${name}\` of startRelay to be an integer from ${least} to ${most}, got \`${shown(String(value))}\`.`,
      )
    }
    numbers[name] = value
  }
  refuseUnfitSeal('startRelay', options.seal)
  const runtime = options.runtime ?? systemRuntime
  const logger = options.logger ?? consoleLogger(runtime)
  const { seal } = options
  return { ...numbers, destinations: checked(destinations), seal, logger, runtime }
}

function checked(destinations: unknown): ReadonlyMap<string, Destination> {
  const all = Object.entries(Object(destinations) as Record<string, unknown>)
  if (all.length === 0) {
    throw new ConfigurationError('startRelay expects at least one of `destinations`.')
  }
  const unknown = all.find(([name]) => !isDestination(name))
  if (unknown !== undefined) {
    throw new ConfigurationError(
      `No message can be sent to \`destinations.${shown(unknown[0])}\` of startRelay: its name must be ${DESTINATION_NAME}.`,
    )
  }
  const wrong = all.find(([, destination]) => !hasMethod(destination, 'publish'))
  if (wrong !== undefined) {
    throw new ConfigurationError(
      `Expected \`destinations.${shown(wrong[0])}\` of startRelay to be made by a function such as \`kafkaDestination(producer, { topic })\`.`,
    )
  }
  const named = new Map(all as [string, Destination][])
  for (const [name, { batch }] of named) {
    if (Number.isInteger(batch) && batch >= 1) continue
    throw new ConfigurationError(
      `Expected \`destinations.${shown(name)}.batch\` of startRelay to be the most messages of one call, an integer from 1 on, got \`${shown(String(batch))}\`.`,
    )
  }
  return named
}
