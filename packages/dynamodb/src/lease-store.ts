import { ConfigurationError, type Json, type LeaseStore } from '@onceward/core'
import { createSemaphore, refuseUnfitClient, type Semaphore } from '@onceward/core/adapter'
import {
  type AnswerTo,
  type Claim,
  type ClaimResult,
  type Command,
  type EventId,
  type EventState,
  type Held,
  type HeldAnswer,
  type LeaseOperators,
  type LeaseRegistration,
  type LeaseSession,
  OPERATORS,
  type Runtime,
  systemRuntime,
  transition,
} from '@onceward/core/ports'
import type { DynamoLike } from './client.ts'
import { toStartError } from './errors.ts'
import { ABSENT, type Entry } from './item.ts'
import { type DynamoLeasesOptions, dynamoOptions, type ResolvedDynamoOptions } from './options.ts'
import { LeaseItems } from './table.ts'

/** Leases in DynamoDB, with the operations for operators of guards without an inbox. */
export interface DynamoLeases extends LeaseStore, LeaseOperators {}

/** The default dedup window, for calls without a guard. */
const WINDOW_MS = 1_296_000_000
/** Requests at the same time: the SDK keeps fifty sockets. */
const REQUESTS = 40
/** Events of this process whose entry is remembered, so that its owner need not read it. Each takes about 300 bytes. */
const REMEMBERED = 10_000
/** Read at the start. No event has this id. */
const PROBE = '00000000-0000-0000-0000-000000000000' as EventId

/**
 * Leases in Amazon DynamoDB, for guards without an inbox: on Lambda, or for routes without PostgreSQL. An event that runs
 * the first time costs two writes, a copy one.
 *
 * Each change is one write with a condition, and a change between is seen and judged again. The time is the one of the
 * processes, so they need a clock that is synchronized ({@link DynamoLeasesOptions.clockSkewMs}).
 *
 * @param client - Of `@aws-sdk/client-dynamodb`. It stays yours, and its repetitions may stay on.
 * @throws {@link ConfigurationError} naming the option that cannot work, and when the guard starts, if the table does not
 * exist, has another key, or if the guard has an inbox.
 *
 * @example
 * ```ts
 * import { DynamoDBClient } from '@aws-sdk/client-dynamodb'
 * import { createGuard } from '@onceward/core'
 * import { dynamoLeases } from '@onceward/dynamodb'
 *
 * // No inbox: the effect is a call, so pass `idempotencyKey` on.
 * const mails = createGuard(
 *   {
 *     consumer: 'mails',
 *     leases: dynamoLeases(new DynamoDBClient({}), { table: 'onceward' }),
 *     onTakeover: 'retry',
 *   },
 *   async ({ payload, idempotencyKey }, { signal }) => sendMail(payload, idempotencyKey, signal),
 * )
 * ```
 */
export function dynamoLeases(client: DynamoLike, options: DynamoLeasesOptions): DynamoLeases {
  return leasesOf(client, options, systemRuntime)
}

/** @param runtime - A test passes a clock that it can move. */
export function leasesOf(
  client: DynamoLike,
  options: DynamoLeasesOptions,
  runtime: Runtime,
): DynamoLeases {
  refuseUnfitClient('dynamoLeases', client, {
    ...{ expected: 'a client of @aws-sdk/client-dynamodb', methods: ['send'] },
    advice: 'Give `new DynamoDBClient({})`.',
  })
  const resolved = dynamoOptions(options)
  const requests = createSemaphore(REQUESTS)
  const sessionOf = (clock: Runtime, keepMs: number): DynamoSession =>
    new DynamoSession({
      ...{ items: new LeaseItems(client, resolved, clock), runtime: clock, requests, keepMs },
      skewMs: resolved.clockSkewMs,
    })
  const unopened = sessionOf(runtime, WINDOW_MS)
  return {
    open: (registration) => open(sessionOf, registration),
    claim: (claims) => unopened.claim(claims),
    renew: (held, leaseMs) => unopened.renew(held, leaseMs),
    complete: (done, rememberMs) => unopened.complete(done, rememberMs),
    fail: (failed) => unopened.fail(failed),
    release: (held) => unopened.release(held),
    bury: (dead, rememberMs) => unopened.bury(dead, rememberMs),
    replay: (ids) => unopened.replay(ids),
    forget: (ids) => unopened.forget(ids),
  }
}

async function open(
  sessionOf: (runtime: Runtime, keepMs: number) => DynamoSession,
  { runtime, dedupWindowMs, identity }: LeaseRegistration,
): Promise<LeaseSession> {
  if (identity !== undefined) {
    throw new ConfigurationError(
      '`dynamoLeases` is for guards without an inbox. Beside an inbox PostgreSQL has the leases: leave `leases` out, or use `redisLeases`.',
    )
  }
  const session = sessionOf(runtime, dedupWindowMs)
  await session.start()
  return session
}

interface SessionParts {
  readonly items: LeaseItems
  readonly runtime: Runtime
  readonly requests: Semaphore
  /** How long the count of attempts outlives a lease or a wait, ms. */
  readonly keepMs: ResolvedDynamoOptions['budgetMs']
  readonly skewMs: number
}

/** What a step makes of an event. The same state: nothing is written. */
interface Step<Answer> {
  readonly state: EventState
  readonly answer: Answer
}

class DynamoSession implements LeaseSession, LeaseOperators {
  readonly #parts: SessionParts
  /** Hints only: every write compares the version. */
  readonly #remembered = new Map<EventId, Entry>()

  constructor(parts: SessionParts) {
    this.#parts = parts
  }

  /** @throws {@link ConfigurationError} if only other settings of the table or the client help. */
  async start(): Promise<void> {
    try {
      await this.#parts.items.read(PROBE)
    } catch (error) {
      throw toStartError(error)
    }
  }

  claim(claims: readonly Claim[]): Promise<readonly ClaimResult[]> {
    const { skewMs } = this.#parts
    return this.#inOrder(claims, ({ id, leaseMs, ...claim }) =>
      this.#tell(id, { kind: 'claim', leaseMs: leaseMs + skewMs, ...claim }),
    )
  }

  renew(held: readonly Held[], leaseMs: number): Promise<readonly HeldAnswer[]> {
    const command = { kind: 'renew', leaseMs: leaseMs + this.#parts.skewMs } as const
    return this.#inOrder(held, ({ id, ownerToken }) => this.#tell(id, { ...command, ownerToken }))
  }

  complete(
    done: readonly (Held & { readonly result?: Json | undefined })[],
    rememberMs: number,
  ): Promise<readonly HeldAnswer[]> {
    return this.#inOrder(done, ({ id, ...rest }) =>
      this.#tell(id, { kind: 'complete', ...rest }, rememberMs),
    )
  }

  fail(failed: readonly (Held & { readonly delayMs: number })[]): Promise<readonly HeldAnswer[]> {
    return this.#inOrder(failed, ({ id, ...rest }) => this.#tell(id, { kind: 'fail', ...rest }))
  }

  release(held: readonly Held[]): Promise<readonly HeldAnswer[]> {
    return this.#inOrder(held, ({ id, ownerToken }) =>
      this.#tell(id, { kind: 'release', ownerToken }),
    )
  }

  bury(
    dead: readonly (Held & { readonly reason: Extract<Command, { kind: 'bury' }>['reason'] })[],
    rememberMs: number,
  ): Promise<readonly HeldAnswer[]> {
    return this.#inOrder(dead, ({ id, ...rest }) =>
      this.#tell(id, { kind: 'bury', ...rest }, rememberMs),
    )
  }

  replay(ids: readonly EventId[]): Promise<readonly boolean[]> {
    return this.#operate(ids, OPERATORS.replay)
  }

  forget(ids: readonly EventId[]): Promise<readonly boolean[]> {
    return this.#operate(ids, OPERATORS.forget)
  }

  #operate(
    ids: readonly EventId[],
    operate: (state: EventState, nowMs: number) => EventState | undefined,
  ): Promise<readonly boolean[]> {
    const events = ids.map((id) => ({ id }))
    return this.#inOrder(events, ({ id }) =>
      this.#change<boolean>(id, (state, nowMs) => {
        const next = operate(state, nowMs)
        return { state: next ?? state, answer: next !== undefined }
      }),
    )
  }

  #tell<C extends Command>(
    id: EventId,
    command: C,
    rememberMs?: number,
  ): Promise<AnswerTo<C['kind']>> {
    return this.#change<AnswerTo<C['kind']>>(
      id,
      (state, nowMs) => transition(state, command, nowMs),
      rememberMs,
    )
  }

  /** Reads, decides and writes, until nothing has changed between. Whoever changes it has got further. */
  async #change<Answer>(
    id: EventId,
    step: (state: EventState, nowMs: number) => Step<Answer>,
    rememberMs?: number,
  ): Promise<Answer> {
    const { items, runtime } = this.#parts
    // An event of this process is as it left it, and any other is new, unless the condition says otherwise.
    let seen = this.#remembered.get(id) ?? ABSENT
    let isGuess = true
    for (;;) {
      const nowMs = runtime.now()
      const before = seen.forgetAtMs > nowMs ? seen.state : ABSENT.state
      const { state, answer } = step(before, nowMs)
      if (state === before) {
        if (!isGuess) return answer
        seen = await items.read(id)
      } else {
        const next = this.#entryOf(state, nowMs, rememberMs)
        const there = await items.write(id, seen, next)
        if (there === undefined) {
          this.#remember(id, next)
          return answer
        }
        seen = there
      }
      isGuess = false
    }
  }

  #entryOf(state: EventState, nowMs: number, rememberMs: number | undefined): Entry {
    const { keepMs, runtime } = this.#parts
    const untilMs =
      state.kind === 'in-progress'
        ? state.leaseUntil
        : state.kind === 'waiting'
          ? state.notBefore
          : nowMs
    return { state, version: runtime.uuid(), forgetAtMs: untilMs + (rememberMs ?? keepMs) }
  }

  #remember(id: EventId, entry: Entry): void {
    this.#remembered.delete(id)
    if (entry.state.kind !== 'in-progress') return
    this.#remembered.set(id, entry)
    // Claims that were abandoned are never told to end.
    const [oldest] = this.#remembered.keys()
    if (this.#remembered.size > REMEMBERED && oldest !== undefined) this.#remembered.delete(oldest)
  }

  /** Different events at once, entries of the same event one after the other. */
  async #inOrder<Of extends { readonly id: EventId }, Answer>(
    entries: readonly Of[],
    handle: (entry: Of) => Promise<Answer>,
  ): Promise<readonly Answer[]> {
    const last = new Map<EventId, Promise<Answer>>()
    return Promise.all(
      entries.map((entry) => {
        const handled = this.#after(last.get(entry.id), () => handle(entry))
        last.set(entry.id, handled)
        return handled
      }),
    )
  }

  async #after<Answer>(
    previous: Promise<unknown> | undefined,
    handle: () => Promise<Answer>,
  ): Promise<Answer> {
    await previous
    const release = await this.#parts.requests.acquire()
    try {
      return await handle()
    } finally {
      release?.()
    }
  }
}
