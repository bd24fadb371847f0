import { StoreUnavailableError } from '@onceward/core'
import { answerWithin, LATE } from '@onceward/core/adapter'
import type { BeginRequest, Begun, Runtime } from '@onceward/core/ports'
import type { BeginContext, Driver, QueryAnswer } from '../driver/driver.ts'
import { gateOf, type PoolGate } from '../driver/pool-slots.ts'
import { triesAnother } from '../driver/repeat.ts'
import { settingsIn } from '../driver/session-settings.ts'
import { toStoreError } from '../errors.ts'
import type { DriverSettings } from '../options.ts'
import { BusinessTransaction } from '../transaction/business-transaction.ts'
import {
  boundsOf,
  claimFailure,
  claimSilenceMs,
  nothingClaimed,
  nothingOpen,
  slotRequest,
  takenIn,
} from '../transaction/claim.ts'
import { answeringTexts, preparedClaim } from '../transaction/claim-answer-sql.ts'
import { type OrmClient, OrmConnection, type OrmTransaction } from './orm-connection.ts'
import { StatementWatch } from './statement-watch.ts'

/** Longest wait for a connection, ms. A longer wait means that the user's code holds all connections. */
const CONNECT_MS = 5_000

export interface OrmDriverParts<Tx> {
  readonly client: OrmClient<Tx>
  /** The same object for all guards on the client, because they share its connections. */
  readonly pool: object
  /** The most connections of the client. Undefined if it is not known. */
  readonly poolSize: number | undefined
  readonly settings: DriverSettings
  readonly runtime: Runtime
  /** Everything but the transactions of handlers. */
  readonly own: Omit<Driver<unknown>, 'begin' | 'poolSize' | 'poolUse'>
}

/** The driver for an ORM that tells nothing of its connections. */
export function ormDriver<Tx>(parts: OrmDriverParts<Tx>): Driver<Tx> {
  const { own, pool, poolSize } = parts
  const gate = gateOf(pool, poolSize)
  const driver: Driver<Tx> = {
    ...own,
    poolSize,
    begin: (request, context) => begin({ ...parts, gate, driver }, request, context),
  }
  return driver
}

interface Parts<Tx> extends OrmDriverParts<Tx> {
  readonly gate: PoolGate
  readonly driver: Driver<Tx>
}

async function begin<Tx>(
  parts: Parts<Tx>,
  request: BeginRequest,
  context: BeginContext,
  refused = 1,
): Promise<Begun<Tx>> {
  const held = await hold(parts, request)
  const { claim, budgetMs } = request
  let answer: QueryAnswer
  try {
    const answered = await claimed(held, request, context)
    if (answered === LATE) throw new StoreUnavailableError('PostgreSQL does not answer.')
    answer = answered
  } catch (error) {
    const kind = claimFailure(error, claim)
    if (kind !== undefined) return nothingOpen(held, kind)
    held.destroy()
    if (triesAnother(error, refused)) return begin(parts, request, context, refused + 1)
    throw toStoreError(error, 'beginning a transaction')
  }
  const row = JSON.parse(String(answer.rows[0]?.['answer'])) as Readonly<Record<string, unknown>>
  held.pid = Number(row['pid'])
  const taken = takenIn(row)
  if (taken.claimed.size === 0 && claim.kind !== 'none') return nothingClaimed(held, claim, context)
  const transaction = new BusinessTransaction({
    ...{ held, driver: parts.driver, context, budgetMs, settings: settingsIn(row) },
    xid: taken.xid,
    commitSilenceMs: parts.settings.commitSilenceMs,
  })
  return { kind: 'open', transaction, claimed: taken.claimed }
}

function claimed<Tx>(
  held: OrmConnection<Tx>,
  request: BeginRequest,
  { consumerId, statements: { schema } }: BeginContext,
): Promise<QueryAnswer | typeof LATE> {
  const { claim } = request
  const target = { schema, consumerId }
  const bounds = boundsOf(request)
  const silenceMs = claimSilenceMs(request)
  const prepared =
    claim.kind === 'fresh' ? held.claim(preparedClaim(claim, target, bounds), silenceMs) : undefined
  return prepared ?? held.send(answeringTexts(claim, target, bounds), silenceMs)
}

async function hold<Tx>(parts: Parts<Tx>, request: BeginRequest): Promise<OrmConnection<Tx>> {
  const { client, gate, own, runtime, settings } = parts
  const releaseSlot = await gate.business.acquire(slotRequest(request, runtime))
  const watch = new StatementWatch()
  try {
    const { isolation } = settings
    const beginning = client.begin({ isolation, budgetMs: request.budgetMs, watch })
    const transaction = await openedIn(runtime, beginning)
    return new OrmConnection({ client, transaction, watch, runtime, own, releaseSlot })
  } catch (error) {
    releaseSlot()
    throw toStoreError(error, 'connecting')
  }
}

/** A transaction that opens too late is rolled back. */
async function openedIn<Tx>(
  runtime: Runtime,
  beginning: Promise<OrmTransaction<Tx>>,
): Promise<OrmTransaction<Tx>> {
  const transaction = await answerWithin(runtime, beginning, CONNECT_MS)
  if (transaction !== LATE) return transaction
  beginning.then((late) => late.rollback()).catch(() => undefined)
  throw new StoreUnavailableError(`No connection became free within ${CONNECT_MS} ms.`)
}
