import type { Json, LeaseStore } from '@onceward/core'
import { refuseUnfitClient, refuseUnknownNames } from '@onceward/core/adapter'
import {
  type Claim,
  type ClaimResult,
  type EventId,
  fromJsonText,
  type Held,
  type HeldAnswer,
  type LeaseOperators,
  type LeaseRegistration,
  type LeaseSession,
  type Runtime,
  systemRuntime,
  toJsonText,
} from '@onceward/core/ports'
import type { Pool } from 'pg'
import { POOL, type SizedPoolLike } from './client.ts'
import { connectForStatements } from './clients/pg-connection.ts'
import { batchedCalls } from './driver/batched-calls.ts'
import { gateOf, SPARE_CONNECTIONS, sizeOf } from './driver/pool-slots.ts'
import { texts } from './driver/rows.ts'
import {
  createShortTransactions,
  type ShortTransactions,
  type StatementConnection,
} from './driver/short-transaction.ts'
import { diagnose, toStartError } from './errors.ts'
import { createStatements, type Statements } from './statements/index.ts'

/** Options of {@link postgresLeases}. */
export interface PostgresLeasesOptions {
  /** Schema of the tables. @defaultValue `onceward` */
  readonly schema?: string | undefined
}

/** Leases in PostgreSQL, with the operations for operators of guards without an inbox. */
export interface PostgresLeases extends LeaseStore, LeaseOperators {}

/** The default dedup window, for calls without a guard. */
const WINDOW_MS = 1_296_000_000
/** With an inbox the count of a claim is a hint. */
const HINT_MS = 86_400_000
const SWEEP_EVERY_MS = 60_000
/** Most rows that one sweep deletes. If it deletes as many, there may be more. */
const SWEEP_ROWS = 1_000
/** Single claims share a statement. Whole batches run in parallel, which is faster than one large statement. */
const SHARING = { width: SPARE_CONNECTIONS, most: 100 }

/**
 * Leases in PostgreSQL, in short transactions of their own on the spare connections of the pool: for effects outside of
 * PostgreSQL, and for guards that want claims without Redis.
 *
 * Claims delete expired rows on the way, at most a thousand at a time. {@link MigrateOptions.leases} can make the table
 * unlogged: faster, but a crash of PostgreSQL empties it.
 *
 * @param pool - Of pg, migrated; may be the one of the inbox.
 *
 * @example
 * ```ts
 * import { createGuard } from '@onceward/core'
 * import { postgresLeases } from '@onceward/postgres'
 *
 * // No inbox: the effect is a call, so pass `idempotencyKey` on.
 * const mails = createGuard(
 *   { consumer: 'mails', leases: postgresLeases(pool), onTakeover: 'retry' },
 *   async ({ payload, idempotencyKey }, { signal }) => sendMail(payload, idempotencyKey, signal),
 * )
 * ```
 */
export function postgresLeases(
  pool: SizedPoolLike,
  options: PostgresLeasesOptions = {},
): PostgresLeases {
  refuseUnfitClient('postgresLeases', pool, POOL)
  refuseUnknownNames('postgresLeases', options, { schema: true })
  const statements = createStatements(options.schema)
  const gate = gateOf(pool, sizeOf(pool))
  const tableOn = (runtime: Runtime): Table => {
    const connect = (): Promise<StatementConnection> => connectForStatements(pool as Pool, runtime)
    const transactions = createShortTransactions({ gate, runtime, connect, sendsAtOnce: true })
    return { transactions, statements, runtime }
  }
  const unopened = new LeaseTable({
    ...tableOn(systemRuntime),
    ...{ keepMs: WINDOW_MS, isTruth: true },
  })
  return {
    open: (registration) =>
      open(tableOn(registration.runtime), registration).catch((error: unknown) => {
        throw toStartError(error)
      }),
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

interface Table {
  readonly transactions: ShortTransactions
  readonly statements: Statements
  readonly runtime: Runtime
}

async function open(table: Table, registration: LeaseRegistration): Promise<LeaseSession> {
  const { consumer, dedupWindowMs, identity, logger } = registration
  const isTruth = identity === undefined
  const keepMs = isTruth ? dedupWindowMs : HINT_MS
  const session = new LeaseTable({ ...table, keepMs, isTruth })
  try {
    const [isUnlogged] = texts(await table.transactions.query(table.statements.areLeasesUnlogged))
    if (isTruth && isUnlogged === 'true') {
      logger.warn(
        { consumer, remedy: "migrate(pool, { leases: 'logged' })" },
        'only the leases remember processed events, and a crash of PostgreSQL empties their table',
      )
    }
  } catch (error) {
    // With an inbox leases are only a fast path, so an outage does not stop the start.
    if (isTruth || diagnose(error) !== 'store') throw error
  }
  return session
}

interface LeaseParts extends Table {
  /** How long the row of a claim or a wait outlives its end, ms. */
  readonly keepMs: number
  /** No inbox: only this table remembers processed events. */
  readonly isTruth: boolean
}

/** The row of one event for a statement. */
interface Row {
  readonly id: EventId
}

/** The row of one event for a statement of its owner. */
interface Told extends Row, Held {
  readonly [field: string]: unknown
}

class LeaseTable implements LeaseSession, LeaseOperators {
  readonly #parts: LeaseParts
  readonly #claim = batchedCalls((claims: readonly Claim[]) => this.#claimAll(claims), SHARING)
  #sweepAtMs: number

  constructor(parts: LeaseParts) {
    this.#parts = parts
    this.#sweepAtMs = parts.runtime.monotonic() + SWEEP_EVERY_MS
  }

  async claim(claims: readonly Claim[]): Promise<readonly ClaimResult[]> {
    if (claims.length === 0) return []
    // Not after it: a lease runs from its claim on.
    await this.#sweep()
    return this.#claim(claims)
  }

  async #claimAll(claims: readonly Claim[]): Promise<readonly ClaimResult[]> {
    const { keepMs, statements } = this.#parts
    const rows = claims.map(({ id, fingerprint, ownerToken, leaseMs, maxAttempts }) => {
      const seen = fingerprint.toString()
      return { id, fingerprint: seen, owner: ownerToken, leaseMs, most: maxAttempts, keepMs }
    })
    const answers = await this.#run(statements.claimLeases, rows)
    return answers.map((text) => toClaimResult(JSON.parse(text)))
  }

  renew(held: readonly Held[], leaseMs: number): Promise<readonly HeldAnswer[]> {
    const rows = held.map(({ id, ownerToken }) => ({ id, ownerToken, leaseMs }))
    return this.#owned(this.#parts.statements.renewLeases, rows)
  }

  complete(
    done: readonly (Held & { readonly result?: Json | undefined })[],
    rememberMs: number,
  ): Promise<readonly HeldAnswer[]> {
    const { isTruth, statements } = this.#parts
    const rows = done.map(({ id, ownerToken, result }) => ({
      ...{ id, ownerToken, rememberMs },
      // Undefined without a result.
      result: toJsonText(result),
    }))
    return this.#owned(isTruth ? statements.completeLeases : statements.dropLeases, rows)
  }

  fail(failed: readonly (Held & { readonly delayMs: number })[]): Promise<readonly HeldAnswer[]> {
    const rows = failed.map(({ id, ownerToken, delayMs }) => ({ id, ownerToken, delayMs }))
    return this.#owned(this.#parts.statements.failLeases, rows)
  }

  release(held: readonly Held[]): Promise<readonly HeldAnswer[]> {
    const rows = held.map(({ id, ownerToken }) => ({ id, ownerToken }))
    return this.#owned(this.#parts.statements.releaseLeases, rows)
  }

  bury(
    dead: readonly (Held & { readonly reason: string })[],
    rememberMs: number,
  ): Promise<readonly HeldAnswer[]> {
    const { isTruth, statements } = this.#parts
    const rows = dead.map(({ id, ownerToken, reason }) => ({ id, ownerToken, reason, rememberMs }))
    return this.#owned(isTruth ? statements.buryLeases : statements.dropLeases, rows)
  }

  replay(ids: readonly EventId[]): Promise<readonly boolean[]> {
    return this.#operate(this.#parts.statements.replayLeases, ids)
  }

  forget(ids: readonly EventId[]): Promise<readonly boolean[]> {
    return this.#operate(this.#parts.statements.forgetLeases, ids)
  }

  #operate(statement: string, ids: readonly EventId[]): Promise<readonly boolean[]> {
    const { keepMs } = this.#parts
    return this.#inRounds(
      statement,
      ids.map((id) => ({ id, keepMs })),
    )
  }

  async #owned(statement: string, told: readonly Told[]): Promise<readonly HeldAnswer[]> {
    const rows = told.map((one) => ({ ...one, owner: one.ownerToken }))
    const answers = await this.#inRounds(statement, rows)
    return answers.map((held) => (held ? 'held' : 'lost'))
  }

  /** A statement changes a row only once, so an event that occurs twice is handled in two statements. */
  async #inRounds(statement: string, rows: readonly Row[]): Promise<readonly boolean[]> {
    const changed = new Set<Row>()
    for (const round of roundsOf(rows)) {
      const ids = new Set(await this.#run(statement, round))
      for (const row of round) if (ids.has(row.id)) changed.add(row)
    }
    return rows.map((row) => changed.has(row))
  }

  async #run(statement: string, rows: readonly object[]): Promise<readonly string[]> {
    const { isTruth, transactions } = this.#parts
    const run = isTruth ? transactions.durable : transactions.query
    return texts(await run(statement, [JSON.stringify(rows)]))
  }

  async #sweep(): Promise<void> {
    const { runtime, transactions, statements } = this.#parts
    if (runtime.monotonic() < this.#sweepAtMs) return
    this.#sweepAtMs = runtime.monotonic() + SWEEP_EVERY_MS
    // A late sweep is harmless, so a failed one is repeated next time.
    const [deleted] = await transactions.query(statements.sweepLeases).then(texts, () => [])
    if (Number(deleted) >= SWEEP_ROWS) this.#sweepAtMs = runtime.monotonic()
  }
}

/** The first occurrence of each event, then the second, and so on. An event may occur with one token or two. */
function roundsOf(rows: readonly Row[]): readonly (readonly Row[])[] {
  const rounds: Row[][] = []
  const times = new Map<string, number>()
  for (const row of rows) {
    const time = times.get(row.id) ?? 0
    times.set(row.id, time + 1)
    rounds[time] ??= []
    rounds[time].push(row)
  }
  return rounds
}

type Answered =
  | Exclude<ClaimResult, { kind: 'duplicate' }>
  | { readonly kind: 'duplicate'; readonly result: string | null }

function toClaimResult(answer: Answered): ClaimResult {
  if (answer.kind !== 'duplicate') return answer
  const { kind, result } = answer
  return { kind, result: result === null ? undefined : (fromJsonText(result) as Json) }
}
