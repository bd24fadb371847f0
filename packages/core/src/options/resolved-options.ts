import type { EventId } from '../model/brands.ts'
import type { Inbox } from '../model/inbox.ts'
import type { LeaseStore } from '../model/lease-store.ts'
import type { Logger } from '../model/logger.ts'
import type { Runtime } from '../model/runtime.ts'
import type {
  CommonOptions,
  Defaults,
  InboxGuardOptions,
  LeaseGuardOptions,
  Resolver,
  RoutingOptions,
} from './options.ts'
import type { RefusalLimit, Valve } from './valve.ts'

type Common = CommonOptions<unknown, unknown>
type Every = Common &
  Pick<InboxGuardOptions<unknown, unknown>, 'transaction'> &
  Pick<LeaseGuardOptions<unknown>, 'onStoreDown'> &
  Pick<RoutingOptions<unknown>, 'unknown'>

/** The options that have a default, as the engine reads them: never undefined. */
export type DefaultedOptions = {
  readonly [Name in Exclude<keyof Defaults, 'retry'>]: NonNullable<Every[Name]>
} & Pick<Defaults, 'retry'>

/** What the engine works with: validated, with all defaults. The types of the user's payload are forgotten. */
export interface ResolvedOptions
  extends DefaultedOptions,
    Pick<
      Common,
      | 'consumer'
      | 'decode'
      | 'skip'
      | 'split'
      | 'schema'
      | 'tenant'
      | 'isFatal'
      | 'afterCommit'
      | 'groupConcurrency'
      | 'observe'
      | 'seal'
    > {
  readonly inbox: Inbox<unknown> | undefined
  readonly leases: LeaseStore | undefined
  readonly eventKey: readonly Resolver[]
  /** Whether the user set `eventKey`. */
  readonly eventKeyChosen: boolean
  readonly orderingKey: Resolver
  /** True when the user gave a resolver; false when the broker's own ordering key is used. */
  readonly orderingKeyChosen: boolean
  /** True when functions of the user read a message before its event is known. */
  readonly readsByUser: boolean
  /** Version of the fingerprint rule, as it is registered and stored; 0 = none. */
  readonly fingerprintRule: number
  /** True when the user set `concurrency`; false when it is the default. */
  readonly concurrencyChosen: boolean
  readonly onTakeover: LeaseGuardOptions<unknown>['onTakeover'] | undefined
  /** Never throws. */
  readonly logger: Logger
  /** Keys are logged in clear. */
  readonly logKeys: boolean
  readonly duplicates: DuplicatesLog
  /** Whether events may start: the consumer may be paused. */
  readonly valve: Valve
  readonly firstRefusals: RefusalLimit
  /** Logs a message once in the life of the guard, or once for each `of`. */
  readonly reportOnce: (
    level: 'warn' | 'error',
    fields: object,
    message: string,
    of?: string,
  ) => void
  /** The user's logger, from which the logger of each run is made. */
  readonly handlerLogger: Logger
  readonly runtime: Runtime
  /** The options `type` and `on`. Undefined: one handler takes all messages. */
  readonly routes?: Routes | undefined
  /** Given if a caller waits for each outcome and sends a failed event again. Undefined: the guard retries events. */
  readonly callerRetries?: CallerRetries | undefined
}

/** What the type of a message chooses. */
export interface Routes {
  readonly type: readonly Resolver[]
  /** The options of the guard, with those of the type over them. */
  readonly byType: ReadonlyMap<string, ResolvedOptions>
}

/** Counts duplicates for a line of the log. */
export interface DuplicatesLog {
  /** @param secret - For hashing the key. */
  note(last: {
    readonly key?: string | undefined
    readonly eventId?: EventId | undefined
    readonly secret: Uint8Array | undefined
  }): void
  /** Writes what has been counted since the last line. */
  write(): void
}

/**
 * The retry policy of requests. A failed run is rolled back and leaves nothing behind: no attempt is counted, nothing
 * waits, and nothing is dead-lettered. Refused requests are not recorded. The caller gets the error and decides.
 *
 * An event that was parked has no caller, so its counted runs follow the policy of the guard.
 */
export interface CallerRetries {
  /** Whether a thrown value is a deliberate answer to the caller, and so no fault to warn of. Never throws. */
  readonly isAnswer: (error: unknown) => boolean
  /**
   * The events of callers are parked: the caller gets its answer once they are stored, and the poller of a guard of the
   * consumer runs them. Needs an inbox. Default: false.
   */
  readonly runsLater?: boolean | undefined
}

/** The option `fingerprint`. */
export type FingerprintRule = DefaultedOptions['fingerprint']

const GROUPED_IN_HAND = 8

/**
 * Events in hand for each slot: while one runs, the next one waits for the COMMIT that begins it (design.md §15). No more
 * calls of `afterCommit` run than handlers, and a batch that waits for another takes in what comes meanwhile.
 */
export function inHandPerSlot(options: ResolvedOptions): number {
  const { afterCommit, groupConcurrency, inbox, transaction } = options
  // Events of full groups must not keep those of others from coming.
  if (groupConcurrency !== undefined) return GROUPED_IN_HAND
  return inbox !== undefined && afterCommit === undefined && transaction === 'each' ? 2 : 1
}
