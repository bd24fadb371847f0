import { StoreUnavailableError } from '@onceward/core'
import { answerWithin, LATE } from '@onceward/core/adapter'
import type { BeginClaim, BeginRequest, Begun, PoolUse, Runtime } from '@onceward/core/ports'
import type { Pool, PoolClient } from 'pg'
import {
  connectForStatements,
  type PgHeldConnection,
  type ToLibraryTransaction,
  takeConnection,
} from './clients/pg-connection.ts'
import type { PgAnswer } from './clients/pg-query.ts'
import type { BeginContext, Driver } from './driver/driver.ts'
import { gateOf, type PoolGate, sizeOf } from './driver/pool-slots.ts'
import { triesAnother } from './driver/repeat.ts'
import type { SessionSettings } from './driver/session-settings.ts'
import { createShortTransactions } from './driver/short-transaction.ts'
import { diagnose, toStoreError } from './errors.ts'
import type { DriverSettings } from './options.ts'
import { BusinessTransaction } from './transaction/business-transaction.ts'
import {
  boundsOf,
  claimedByCount,
  claimFailure,
  claimSilenceMs,
  countOf,
  nothingClaimed,
  nothingOpen,
  slotRequest,
  type Taken,
  takenIn,
  takenInRows,
} from './transaction/claim.ts'
import {
  beginText,
  type ClaimTarget,
  claimTexts,
  FEW_ROWS,
  frameOf,
  isOfFewRows,
  RESTORE,
  restoreText,
  takingTexts,
  unknownBoundText,
} from './transaction/claim-sql.ts'

export interface PgSettings extends DriverSettings {
  /** No other code uses the connections, so the bounds can be settings of their sessions. */
  readonly ownsSessions?: boolean
}

/** The driver for pg. */
export function pgDriver(pool: Pool, settings: PgSettings, runtime: Runtime): Driver<PoolClient> {
  const poolSize = sizeOf(pool)
  const gate = gateOf(pool, poolSize)
  const driver: Driver<PoolClient> = {
    ...createShortTransactions({
      ...{ gate, runtime, sendsAtOnce: true },
      connect: () => connectForStatements(pool, runtime),
    }),
    sendsAtOnce: true,
    poolSize,
    poolUse: () => poolUseOf(pool),
    diagnose,
    begin: (request, context) => begin({ pool, gate, settings, driver }, request, context),
  }
  return driver
}

function poolUseOf(pool: Pool): PoolUse {
  const { idleCount, totalCount, waitingCount } = pool
  return {
    ...{ used: totalCount - idleCount, idle: idleCount },
    ...{ waiting: waitingCount, size: sizeOf(pool) },
  }
}

/** A library over pg that has transactions of its own. */
export interface PgLibrary<Tx> {
  /** Of the library. The same object for all guards on it, because they share its connections. */
  readonly pool: Pool
  readonly toTransaction: ToLibraryTransaction<Tx>
}

/**
 * The driver for a library over pg. The transactions of handlers run on the library's pool, and everything else on a pool
 * of the guard's own.
 */
export function pgLibraryDriver<Tx>(
  { pool, toTransaction }: PgLibrary<Tx>,
  own: Pool,
  settings: DriverSettings,
  runtime: Runtime,
): Driver<Tx> {
  const poolSize = sizeOf(pool)
  const gate = gateOf(pool, poolSize)
  const driver: Driver<Tx> = {
    ...pgDriver(own, settings, runtime),
    poolSize,
    poolUse: () => poolUseOf(pool),
    begin: (request, context) =>
      begin({ pool, gate, settings, driver, library: { toTransaction, own } }, request, context),
  }
  return driver
}

interface PgParts<Tx> {
  readonly pool: Pool
  readonly gate: PoolGate
  readonly settings: PgSettings
  readonly driver: Driver<Tx>
  readonly library?: { readonly toTransaction: ToLibraryTransaction<Tx>; readonly own: Pool }
}

const DOING = 'beginning a transaction'

async function begin<Tx>(
  parts: PgParts<Tx>,
  request: BeginRequest,
  context: BeginContext,
  refused = 1,
): Promise<Begun<Tx>> {
  const { runtime } = context
  const slots = parts.gate.business
  const ownsSessions = parts.settings.ownsSessions === true
  const releaseSlot = slots.tryAcquire() ?? (await slots.acquire(slotRequest(request, runtime)))
  const { library, pool } = parts
  const lender = { pool, runtime, releaseSlot, ownsSessions, cancelPool: library?.own }
  const held = await takeConnection<Tx>({ ...lender, isForLibrary: library !== undefined })
  const { claim } = request
  let known: SessionSettings | undefined
  let answers: readonly PgAnswer[] | typeof LATE
  try {
    if (ownsSessions && held.session.needsBound(boundsOf(request).budgetMs))
      await bound(held, request, runtime)
    known = held.session.settings()
    const { isolation } = parts.settings
    const { handlerLockTimeout } = held.session
    const texts = textsOf(known, { request, context, isolation, handlerLockTimeout })
    const reads = known === undefined || countOf(claim) > 1 ? 'rows' : 'no-rows'
    answers = await held.sendAll(texts, claimSilenceMs(request), reads)
    if (answers === LATE) throw silent()
  } catch (error) {
    const kind = claimFailure(error, claim)
    if (kind !== undefined) return nothingOpen(held, kind)
    held.destroy()
    if (triesAnother(error, refused)) return begin(parts, request, context, refused + 1)
    throw toStoreError(error, DOING)
  }
  const settings = known ?? held.session.learn(sessionIn(answers))
  held.opened()
  const { claimed, xid } = readClaim(request, answers)
  if (claimed.size === 0 && claim.kind !== 'none') return nothingClaimed(held, claim, context)
  if (library !== undefined) await handOver(held, library.toTransaction)
  const { driver } = parts
  const { budgetMs } = request
  const { commitSilenceMs } = parts.settings
  const business = { held, driver, context, xid, budgetMs, settings, commitSilenceMs }
  const transaction = new BusinessTransaction(business)
  return { kind: 'open', transaction, claimed }
}

async function handOver<Tx>(
  held: PgHeldConnection<Tx>,
  toTransaction: ToLibraryTransaction<Tx>,
): Promise<void> {
  try {
    await held.hand(toTransaction)
  } catch (error) {
    held.destroy()
    throw toStoreError(error, DOING)
  }
}

const silent = (): StoreUnavailableError => new StoreUnavailableError('PostgreSQL does not answer.')

/** Makes the bounds settings of the session. */
async function bound<Tx>(
  held: PgHeldConnection<Tx>,
  request: BeginRequest,
  runtime: Runtime,
): Promise<void> {
  const bounding = held.bound(boundsOf(request))
  if ((await answerWithin(runtime, bounding, claimSilenceMs(request))) === LATE) throw silent()
}

/** The row of the statement that reads the settings of the session. */
function sessionIn(answers: readonly PgAnswer[]): PgAnswer['rows'][number] {
  return answers.find(({ rows }) => rows[0]?.['pid'] !== undefined)?.rows[0] ?? {}
}

interface TextParts {
  readonly request: BeginRequest
  readonly context: BeginContext
  readonly isolation: DriverSettings['isolation']
  readonly handlerLockTimeout: string | undefined
}

/** All statements before the handler in one text, for one round trip. */
function textsOf(
  known: SessionSettings | undefined,
  { request, context, isolation, handlerLockTimeout }: TextParts,
): readonly string[] {
  const { statements, consumerId } = context
  const target = { schema: statements.schema, consumerId }
  const claim = claimingTexts(request.claim, target)
  const bounds = boundsOf(request)
  if (known === undefined) {
    const restore =
      handlerLockTimeout === undefined ? `select ${RESTORE}` : restoreText({ handlerLockTimeout })
    return [beginText(isolation), unknownBoundText(bounds), ...claim, restore]
  }
  const { before, behind } = frameOf(isolation, bounds, known)
  return [before, ...claim, behind]
}

function claimingTexts(
  claim: BeginClaim,
  target: Omit<ClaimTarget, 'returning'>,
): readonly string[] {
  if (isOfFewRows(claim)) return claimTexts(claim, { ...target, returning: FEW_ROWS })
  return countOf(claim) > 1
    ? takingTexts(claim, target)
    : claimTexts(claim, { ...target, returning: '' })
}

function readClaim({ claim }: BeginRequest, answers: readonly PgAnswer[]): Taken {
  const isOfFew = isOfFewRows(claim)
  if (countOf(claim) > 1 && !isOfFew) {
    return takenIn(answers.find(({ rows }) => rows[0]?.['ids'] !== undefined)?.rows[0])
  }
  const command = claim.kind === 'fresh' ? 'INSERT' : 'UPDATE'
  const answer = answers.find((each) => each.command === command)
  if (isOfFew) return takenInRows(answer?.rows ?? [])
  return { claimed: claimedByCount(claim, answer?.rowCount ?? 0), xid: undefined }
}
