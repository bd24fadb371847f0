import { StoreUnavailableError } from '@onceward/core'
import { answerWithin, LATE } from '@onceward/core/adapter'
import type { BeginRequest, Begun, PoolUse, Runtime } from '@onceward/core/ports'
import type { Pool, PoolClient } from 'pg'
import { openOn, type PgParts, type PgSettings } from './clients/pg-chain.ts'
import { readClaim, sessionIn, textsOf } from './clients/pg-claim.ts'
import {
  connectForStatements,
  type PgHeldConnection,
  type ToLibraryTransaction,
  takeConnection,
} from './clients/pg-connection.ts'
import type { PgAnswer } from './clients/pg-query.ts'
import type { BeginContext, Driver } from './driver/driver.ts'
import { gateOf, sizeOf } from './driver/pool-slots.ts'
import { triesAnother } from './driver/repeat.ts'
import type { SessionSettings } from './driver/session-settings.ts'
import { createShortTransactions } from './driver/short-transaction.ts'
import { diagnose, toStoreError } from './errors.ts'
import type { DriverSettings } from './options.ts'
import {
  boundsOf,
  claimFailure,
  claimSilenceMs,
  countOf,
  nothingClaimed,
  nothingOpen,
  slotRequest,
} from './transaction/claim.ts'

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
  return openOn({ parts, context, held, settings, links: 0 }, request, { claimed, xid })
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
