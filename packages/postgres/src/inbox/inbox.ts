import type {
  BeginRequest,
  Begun,
  Burial,
  ConsumerRegistration,
  CountAnswer,
  DeadLetterRef,
  DueEvent,
  Failure,
  IdentifiedEvent,
  Inbox,
  InboxSession,
  Known,
  MessageCounts,
  OwnerToken,
  PublishingEnd,
  PublishingRight,
  Refusal,
  Release,
  Runtime,
  SweepStep,
  VerdictAnswer,
} from '@onceward/core'
import { batchedCalls } from '../driver/batched-calls.ts'
import type { Driver } from '../driver/driver.ts'
import { SPARE_CONNECTIONS } from '../driver/pool-slots.ts'
import { type ConsumerContext, texts } from '../driver/rows.ts'
import { createStatements } from '../statements/index.ts'
import { classify, count, type SuspectAnswer, suspect } from './attempts.ts'
import { messageCounts } from './message-counts.ts'
import { due, endPublishing, takePublishing } from './publish-dead-letter.ts'
import { refuse, resolveRefused } from './refused-messages.ts'
import { type OpenedInbox, open, register } from './register-consumer.ts'
import { sweep } from './retention.ts'
import { bury, fail, release } from './verdicts.ts'

/** Options of `pgInbox` and `kyselyInbox` that concern the tables. */
export interface InboxOptions {
  /** Schema of the tables. @defaultValue `onceward` */
  readonly schema?: string | undefined
}

/** How often a running guard refreshes its registration. */
const SEEN_EVERY_MS = 600_000
/** Reads of many lanes share a statement. Whole batches run in parallel, which is faster than one large statement. */
const SHARING = { width: SPARE_CONNECTIONS, most: 100 }

/**
 * Makes an inbox of a driver. Everything but the business transaction is written here, once for all drivers.
 *
 * @param createDriver - Makes the driver of one guard, on that guard's clock.
 */
export function createInbox<Tx>(
  createDriver: (runtime: Runtime) => Driver<Tx>,
  options: InboxOptions = {},
): Inbox<Tx> {
  const statements = createStatements(options.schema)
  return {
    open: async (registration) => {
      const driver = createDriver(registration.runtime)
      return new PostgresSession(driver, await open(driver, statements, registration))
    },
  }
}

class PostgresSession<Tx> implements InboxSession<Tx> {
  readonly concurrency: number
  readonly secret: Uint8Array
  readonly messageCounts: MessageCounts
  readonly #driver: Driver<Tx>
  readonly #registration: ConsumerRegistration
  readonly #context: ConsumerContext & { readonly maxAttempts: number; readonly runtime: Runtime }
  readonly #classify = batchedCalls(
    (events: readonly IdentifiedEvent[]) => classify(this.#context, events),
    SHARING,
  )
  #seenAtMs: number

  constructor(driver: Driver<Tx>, opened: OpenedInbox) {
    const { registration, consumerId, statements } = opened
    const { maxAttempts, runtime } = registration
    this.concurrency = opened.concurrency
    this.secret = opened.secret
    this.#driver = driver
    this.#registration = registration
    this.#context = { driver, statements, consumerId, maxAttempts, runtime }
    this.messageCounts = messageCounts(this.#context)
    this.#seenAtMs = runtime.monotonic()
  }

  async identity(): Promise<string> {
    const { driver, statements } = this.#context
    return texts(await driver.query(statements.readIdentity))[0] ?? ''
  }

  begin(request: BeginRequest): Promise<Begun<Tx>> {
    return this.#driver.begin(request, this.#context)
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

  fail(failures: readonly Failure[]): Promise<readonly VerdictAnswer[]> {
    return fail(this.#context, failures)
  }

  bury(burials: readonly Burial[]): Promise<readonly VerdictAnswer[]> {
    return bury(this.#context, burials)
  }

  release(releases: readonly Release[]): Promise<readonly VerdictAnswer[]> {
    return release(this.#context, releases)
  }

  refuse(refusals: readonly Refusal[]): Promise<readonly DeadLetterRef[]> {
    return refuse(this.#context, refusals)
  }

  takePublishing(ref: DeadLetterRef, rightMs: number): Promise<PublishingRight> {
    return takePublishing(this.#context, ref, rightMs)
  }

  endPublishing(ref: DeadLetterRef, token: OwnerToken, as: PublishingEnd): Promise<VerdictAnswer> {
    return endPublishing(this.#context, ref, { token, as })
  }

  async due(limit: number): Promise<readonly DueEvent[]> {
    await this.#stayRegistered()
    return due(this.#context, limit)
  }

  resolveRefused(id: string): Promise<void> {
    return resolveRefused(this.#context, id)
  }

  sweep(): Promise<SweepStep | undefined> {
    return sweep(this.#context)
  }

  diagnose(error: unknown): 'serialization' | 'store' | 'other' {
    return this.#driver.diagnose(error)
  }

  /** Keeps this guard's dedup window in force while it runs. */
  async #stayRegistered(): Promise<void> {
    const nowMs = this.#registration.runtime.monotonic()
    if (nowMs - this.#seenAtMs < SEEN_EVERY_MS) return
    await register(this.#driver, this.#context.statements, this.#registration)
    this.#seenAtMs = nowMs
  }
}
