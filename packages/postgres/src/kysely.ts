import { ConfigurationError, type Inbox, StoreUnavailableError } from '@onceward/core'
import { LATE, refuseUnfitClient, refuseUnknownNames } from '@onceward/core/adapter'
import type { BeginRequest, Begun, Runtime } from '@onceward/core/ports'
import type { Kysely, Transaction } from 'kysely'
import type { Client } from './clients/kysely-checkout.ts'
import { connectForStatements, KyselyHeldConnection } from './clients/kysely-connection.ts'
import type { BeginContext, Driver } from './driver/driver.ts'
import type { SendAnswer } from './driver/held-connection.ts'
import { gateOf, type PoolGate } from './driver/pool-slots.ts'
import { triesAnother } from './driver/repeat.ts'
import { READ_SETTINGS } from './driver/session-settings.ts'
import { createShortTransactions } from './driver/short-transaction.ts'
import { diagnose, toStoreError } from './errors.ts'
import { createInbox } from './inbox/inbox.ts'
import {
  BUSINESS_OPTIONS,
  type BusinessOptions,
  businessOptions,
  type DriverSettings,
} from './options.ts'
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
} from './transaction/claim.ts'
import {
  beginText,
  claimTexts,
  RESTORE,
  takingTexts,
  unknownBoundText,
} from './transaction/claim-sql.ts'

/** Options of {@link kyselyInbox}. */
export interface KyselyInboxOptions extends BusinessOptions {
  /**
   * Connections of the pool below Kysely, because Kysely does not expose them. With this number, guards that share the
   * pool leave two connections spare, and a `concurrency` that does not fit the pool is refused at start.
   */
  readonly poolSize?: number | undefined
}

/**
 * The durable guard of a consumer on Kysely: handlers get the user's `Transaction<DB>`, plugins included.
 *
 * @param db - Any dialect of PostgreSQL: pg, PGlite, … With pg, a connection that is lost while a handler is between
 * two statements fails that run. Kysely alone would let it end the process.
 * @throws {@link ConfigurationError} also for a transaction, whose type is that of a Kysely too.
 *
 * @example
 * ```ts
 * import { createGuard } from '@onceward/core'
 * import { kyselyInbox } from '@onceward/postgres/kysely'
 *
 * const billing = createGuard(
 *   { consumer: 'billing', inbox: kyselyInbox(db, { poolSize: 10 }), schema: OrderPlaced },
 *   async ({ payload: { orderId, cents } }, { tx }) => {
 *     await tx.insertInto('charges').values({ order_id: orderId, cents }).execute()
 *   },
 * )
 * ```
 */
export function kyselyInbox<DB>(
  db: Kysely<DB>,
  options: KyselyInboxOptions = {},
): Inbox<Transaction<DB>> {
  refuseUnfitClient('kyselyInbox', db, {
    expected: 'a Kysely instance',
    methods: ['getExecutor', 'selectFrom'],
  })
  if (db.isTransaction) {
    throw new ConfigurationError(
      'Expected kyselyInbox to get a Kysely instance, got one of its transactions: the guard would commit it. Give the instance that the transaction was begun on.',
    )
  }
  refuseUnknownNames('kyselyInbox', options, { ...BUSINESS_OPTIONS, poolSize: true })
  const { poolSize } = options
  if (poolSize !== undefined && (!Number.isInteger(poolSize) || poolSize < 1)) {
    throw new ConfigurationError(
      `Expected \`poolSize\` to be a positive integer, got \`${String(poolSize)}\`.`,
    )
  }
  const settings = { ...businessOptions(options), poolSize }
  return createInbox(({ runtime }) => kyselyDriver(db, settings, runtime), options)
}

/** The driver for Kysely. */
function kyselyDriver<DB>(
  db: Kysely<DB>,
  settings: DriverSettings & { readonly poolSize?: number | undefined },
  runtime: Runtime,
): Driver<Transaction<DB>> {
  const { adapter } = db.getExecutor()
  const isSingle = adapter.supportsMultipleConnections === false
  // Kyselys derived from one another, as by withPlugin(), share the adapter and the pool.
  const gate = gateOf(adapter, isSingle ? 1 : settings.poolSize)
  const client: Client<DB> = { db, runtime, takesSeveral: isSingle ? false : undefined }
  const driver: Driver<Transaction<DB>> = {
    ...createShortTransactions({
      gate,
      runtime,
      connect: () => connectForStatements(client),
      sendsAtOnce: false,
    }),
    sendsAtOnce: false,
    poolSize: isSingle ? undefined : settings.poolSize,
    diagnose,
    begin: (request, context) => begin({ client, gate, settings, driver }, request, context),
  }
  return driver
}

interface KyselyParts<DB> {
  readonly client: Client<DB>
  readonly gate: PoolGate
  readonly settings: DriverSettings
  readonly driver: Driver<Transaction<DB>>
}

async function begin<DB>(
  parts: KyselyParts<DB>,
  request: BeginRequest,
  context: BeginContext,
  refused = 1,
): Promise<Begun<Transaction<DB>>> {
  const held = await hold(parts, request)
  const { claim, budgetMs } = request
  let answer: SendAnswer
  try {
    const answered = await sendClaim(parts, held, { request, context })
    if (answered === LATE) throw new StoreUnavailableError('PostgreSQL does not answer.')
    answer = answered
  } catch (error) {
    const kind = claimFailure(error, claim)
    if (kind !== undefined) return nothingOpen(held, kind)
    held.destroy()
    if (triesAnother(error, refused)) return begin(parts, request, context, refused + 1)
    throw toStoreError(error, 'beginning a transaction')
  }
  const { claimed, xid, row } = readClaim(request, answer)
  if (claimed.size === 0 && claim.kind !== 'none') return nothingClaimed(held, claim, context)
  const settings = held.opened(row)
  const { driver } = parts
  const transaction = new BusinessTransaction({
    ...{ held, driver, context, xid, budgetMs, settings },
    commitSilenceMs: parts.settings.commitSilenceMs,
  })
  return { kind: 'open', transaction, claimed }
}

async function hold<DB>(
  { client, gate }: KyselyParts<DB>,
  request: BeginRequest,
): Promise<KyselyHeldConnection<DB>> {
  const releaseSlot = await gate.business.acquire(slotRequest(request, client.runtime))
  try {
    return await KyselyHeldConnection.of(client, releaseSlot)
  } catch (error) {
    releaseSlot()
    throw error
  }
}

interface ClaimParts {
  readonly request: BeginRequest
  readonly context: BeginContext
}

/**
 * Two round trips: the time limits travel with BEGIN, and the claim is one statement that restores the user's settings,
 * because Kysely returns no rows for a text of several statements. The limits also hold for a lock on the table.
 */
function sendClaim<DB>(
  { settings }: KyselyParts<DB>,
  held: KyselyHeldConnection<DB>,
  { request, context }: ClaimParts,
): Promise<SendAnswer | typeof LATE> {
  const opening = [beginText(settings.isolation), unknownBoundText(boundsOf(request))]
  return held.send([...opening, ...statementsOf(request, context)], claimSilenceMs(request))
}

/** The process and the settings that the transaction began with: before they are restored, in the same row. */
const SESSION = `pg_catalog.pg_backend_pid()::pg_catalog.text as pid, ${RESTORE}, ${READ_SETTINGS}`

/** The last statement answers one row for a claim of one event, and one row for all events of a larger claim. */
function statementsOf({ claim }: BeginRequest, context: BeginContext): readonly string[] {
  const target = { schema: context.statements.schema, consumerId: context.consumerId }
  if (claim.kind === 'none') return [`select ${SESSION}`]
  if (countOf(claim) < 2)
    return claimTexts(claim, { ...target, returning: ` returning ${SESSION}` })
  // Restored over the aggregate: in `returning`, the limit would be gone after the first row.
  return takingTexts(claim, target, `, ${SESSION}`)
}

function readClaim({ claim }: BeginRequest, { rows }: SendAnswer): Taken & { readonly row: Row } {
  const row = rows[0] ?? {}
  if (countOf(claim) < 2) {
    return { claimed: claimedByCount(claim, rows.length), xid: undefined, row }
  }
  return { ...takenIn(row), row }
}

type Row = Readonly<Record<string, unknown>>
