import { ConfigurationError, type Delivery, type Inbox } from '@onceward/core'
import { shown } from '@onceward/core/adapter'
import type {
  BeginRequest,
  Begun,
  Burial,
  ConsumerRegistration,
  CountAnswer,
  DeadLetterRef,
  DueEvent,
  EventId,
  Failure,
  IdentifiedEvent,
  InboxFigures,
  InboxSession,
  Known,
  MessageCounts,
  OffsetStore,
  OwnerToken,
  ParkAnswer,
  PauseStore,
  PoolUse,
  PublishingEnd,
  PublishingRight,
  Refusal,
  Release,
  SweepStep,
  VerdictAnswer,
} from '@onceward/core/ports'
import { batchedCalls } from '../driver/batched-calls.ts'
import type { BeginContext, Driver } from '../driver/driver.ts'
import { SPARE_CONNECTIONS } from '../driver/pool-slots.ts'
import { type StoringContext, texts } from '../driver/rows.ts'
import { toStartError } from '../errors.ts'
import { createStatements } from '../statements/index.ts'
import { classify, count, type SuspectAnswer, suspect } from './attempts.ts'
import { isWhole } from './bodies.ts'
import { readDone } from './done-events.ts'
import { figures } from './figures.ts'
import { messageCounts } from './message-counts.ts'
import { offsetStore } from './offsets.ts'
import { park } from './parking.ts'
import { pauseStore } from './pauses.ts'
import { due, endPublishing, takePublishing } from './publish-dead-letter.ts'
import { refuse, resolveRefused } from './refused-messages.ts'
import { type OpenedInbox, open, register } from './register-consumer.ts'
import { createSweep } from './retention.ts'
import { bury, fail, noteLate, release } from './verdicts.ts'
import { Worker } from './worker.ts'

/** Options of `pgInbox` and `kyselyInbox` that concern the tables. */
export interface InboxOptions {
  /** Schema of the tables. @defaultValue `onceward` */
  readonly schema?: string | undefined
  /**
   * The largest delivery (body, headers and envelope) that is stored with a dead letter or a refused message, bytes: from
   * 2 MiB to 1 GiB. A larger one is published whole to the dead-letter place. Without a place it stays with the broker,
   * deferred and reported.
   * @defaultValue 134217728 (128 MiB)
   */
  readonly maxStoredBytes?: number | undefined
}

const MIB = 1024 * 1024
/** The default of `maxStoredBytes`: the largest message that RabbitMQ took by default before version 4. */
export const MAX_STORED_BYTES: number = 128 * MIB
/** How often a running guard refreshes its registration. */
const SEEN_EVERY_MS = 600_000
/** Reads of many lanes share a statement. Whole batches run in parallel, which is faster than one large statement. */
const SHARING = { width: SPARE_CONNECTIONS, most: 100 }
/** One read of done events at a time: those that come meanwhile share the next, and the other spare connection is free. */
const LOOKS = { width: 1, most: 100 }

/**
 * Makes an inbox of a driver. Everything but the business transaction is written here, once for all drivers.
 *
 * @param createDriver - Makes the driver of one guard, on that guard's clock. The session closes it.
 */
export function createInbox<Tx>(
  createDriver: (registration: ConsumerRegistration) => Driver<Tx>,
  options: InboxOptions = {},
): Inbox<Tx> {
  const statements = createStatements(options.schema)
  const maxStoredBytes = maxStoredBytesOf(options)
  return {
    open: async (registration) => {
      const driver = createDriver(registration)
      try {
        const opened = await open(driver, statements, registration)
        return new PostgresSession(driver, opened, maxStoredBytes)
      } catch (error) {
        // The next opening makes another driver.
        void driver.close?.()
        throw toStartError(error)
      }
    },
  }
}

/** @throws {@link ConfigurationError} */
function maxStoredBytesOf({ maxStoredBytes = MAX_STORED_BYTES }: InboxOptions): number {
  const isAllowed =
    Number.isInteger(maxStoredBytes) && maxStoredBytes >= 2 * MIB && maxStoredBytes <= 1024 * MIB
  if (isAllowed) return maxStoredBytes
  throw new ConfigurationError(
    `Expected \`maxStoredBytes\` to be an integer from ${2 * MIB} to ${1024 * MIB}, got \`${shown(String(maxStoredBytes))}\`. Units are bytes.`,
  )
}

class PostgresSession<Tx> implements InboxSession<Tx> {
  readonly concurrency: number
  readonly sendsMessages = true
  readonly keepsSealed = 'ended'
  readonly secret: Uint8Array
  readonly messageCounts: MessageCounts
  readonly offsets: OffsetStore
  readonly pauses: PauseStore
  readonly sweep: () => Promise<SweepStep | undefined>
  readonly poolUse?: () => PoolUse
  readonly #driver: Driver<Tx>
  readonly #registration: ConsumerRegistration
  readonly #context: StoringContext & BeginContext & { readonly maxAttempts: number }
  readonly #classify = batchedCalls(
    (events: readonly IdentifiedEvent[]) => classify(this.#context, events),
    SHARING,
  )
  readonly #readDone = batchedCalls(
    (events: readonly IdentifiedEvent[]) => readDone(this.#context, events),
    LOOKS,
  )
  readonly #worker: Worker
  #seenAtMs: number

  constructor(driver: Driver<Tx>, opened: OpenedInbox, maxStoredBytes: number) {
    const { registration, consumerId, statements } = opened
    const { logger, maxAttempts, runtime } = registration
    this.concurrency = opened.concurrency
    this.secret = opened.secret
    this.#driver = driver
    this.#registration = registration
    const consumer = { driver, statements, consumerId, maxStoredBytes, maxAttempts }
    this.#context = { ...consumer, runtime, logger }
    this.messageCounts = messageCounts(this.#context)
    this.offsets = offsetStore(this.#context)
    this.pauses = pauseStore(this.#context)
    this.#worker = new Worker(this.#context)
    this.sweep = createSweep({ driver, statements, registration })
    if (driver.poolUse !== undefined) this.poolUse = driver.poolUse
    this.#seenAtMs = runtime.monotonic()
  }

  async identity(): Promise<string> {
    const { driver, statements } = this.#context
    return texts(await driver.query(statements.readIdentity))[0] ?? ''
  }

  begin(request: BeginRequest): Promise<Begun<Tx>> {
    return request.likelyDone === true && request.claim.kind === 'fresh'
      ? this.#beginUnlessDone(request, request.claim.events)
      : this.#driver.begin(request, this.#context)
  }

  async #beginUnlessDone(
    request: BeginRequest,
    events: readonly IdentifiedEvent[],
  ): Promise<Begun<Tx>> {
    const done = await this.#readDone(events)
    return done.includes(undefined)
      ? this.#driver.begin(request, this.#context)
      : { kind: 'none', done }
  }

  classify(events: readonly IdentifiedEvent[]): Promise<readonly Known[]> {
    return this.#classify(events)
  }

  suspect(events: readonly IdentifiedEvent[], waitMs: number): Promise<SuspectAnswer> {
    return suspect(this.#context, events, waitMs)
  }

  count(
    events: readonly IdentifiedEvent[],
    run: 'together' | 'alone',
  ): Promise<readonly CountAnswer[]> {
    return count(this.#context, events, run)
  }

  park(events: readonly IdentifiedEvent[], waitMs: number): Promise<readonly ParkAnswer[]> {
    return park(this.#context, events, waitMs)
  }

  fail(failures: readonly Failure[]): Promise<readonly VerdictAnswer[]> {
    return fail(this.#context, failures)
  }

  bury(burials: readonly Burial[]): Promise<readonly VerdictAnswer[]> {
    return bury(this.#context, burials)
  }

  release(releases: readonly Release[]): Promise<readonly VerdictAnswer[]> {
    return release(this.#context, releases)
  }

  noteLate(events: readonly Burial[]): Promise<void> {
    return noteLate(this.#context, events)
  }

  refuse(refusals: readonly Refusal[]): Promise<readonly DeadLetterRef[]> {
    return refuse(this.#context, refusals)
  }

  isWhole(ref: DeadLetterRef, delivery: Delivery): Promise<boolean> {
    return isWhole(this.#context, ref, delivery)
  }

  takePublishing(ref: DeadLetterRef, rightMs: number): Promise<PublishingRight> {
    return takePublishing(this.#context, ref, rightMs)
  }

  endPublishing(ref: DeadLetterRef, token: OwnerToken, as: PublishingEnd): Promise<VerdictAnswer> {
    return endPublishing(this.#context, ref, { token, as })
  }

  async due(limit: number, except?: readonly EventId[]): Promise<readonly DueEvent[]> {
    await this.#stayRegistered()
    return due(this.#context, limit, except)
  }

  resolveRefused(id: string): Promise<void> {
    return resolveRefused(this.#context, id)
  }

  diagnose(error: unknown): 'serialization' | 'store' | 'other' {
    return this.#driver.diagnose(error)
  }

  isProven(): Promise<boolean> {
    const { consumerId, driver, statements } = this.#context
    return driver.shortTransaction(async (connection) => {
      await connection.query(statements.boundLook)
      return texts(await connection.query(statements.isProven, [String(consumerId)]))[0] === 'true'
    })
  }

  figures(): Promise<InboxFigures> {
    return figures(this.#context)
  }

  heartbeat(): Promise<void> {
    return this.#worker.beat()
  }

  async close(): Promise<void> {
    await this.#worker.end()
    await this.#driver.close?.()
  }

  /** Keeps this guard's dedup window in force while it runs. */
  async #stayRegistered(): Promise<void> {
    const nowMs = this.#registration.runtime.monotonic()
    if (nowMs - this.#seenAtMs < SEEN_EVERY_MS) return
    await register(this.#driver, this.#context.statements, this.#registration)
    this.#seenAtMs = nowMs
  }
}
