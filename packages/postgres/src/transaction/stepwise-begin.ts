import { StoreUnavailableError } from '@onceward/core'
import { LATE } from '@onceward/core/adapter'
import type { BeginRequest, Begun } from '@onceward/core/ports'
import type { BeginContext, Driver } from '../driver/driver.ts'
import type { HeldConnection, SendAnswer } from '../driver/held-connection.ts'
import { triesAnother } from '../driver/repeat.ts'
import { READ_SETTINGS, type SessionSettings } from '../driver/session-settings.ts'
import { toStoreError } from '../errors.ts'
import { BusinessTransaction } from './business-transaction.ts'
import {
  boundsOf,
  claimedByCount,
  claimFailure,
  claimSilenceMs,
  countOf,
  nothingClaimed,
  nothingOpen,
  type Taken,
  takenIn,
} from './claim.ts'
import {
  beginText,
  claimTexts,
  type Isolation,
  RESTORE,
  takingTexts,
  unknownBoundText,
} from './claim-sql.ts'

/** A connection over a client that returns rows only for a text of one statement. */
export interface SteppingConnection<Tx> extends HeldConnection<Tx> {
  /** The claim is answered. A BEGIN or COMMIT from now on comes from the handler. */
  opened(row: Row): SessionSettings
}

export interface SteppingParts<Tx> {
  readonly hold: (request: BeginRequest) => Promise<SteppingConnection<Tx>>
  readonly settings: { readonly isolation: Isolation; readonly commitSilenceMs: number }
  readonly driver: Driver<Tx>
  /** Whether the transaction must be begun. Otherwise it has begun with the connection. */
  readonly begins: boolean
}

/**
 * The business transaction over a client that returns rows only for a text of one statement: the claim is one, and restores
 * the user's settings itself.
 */
export async function beginInSteps<Tx>(
  parts: SteppingParts<Tx>,
  request: BeginRequest,
  context: BeginContext,
  refused = 1,
): Promise<Begun<Tx>> {
  const held = await parts.hold(request)
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
    if (triesAnother(error, refused)) return beginInSteps(parts, request, context, refused + 1)
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

interface ClaimParts {
  readonly request: BeginRequest
  readonly context: BeginContext
}

/**
 * Two round trips: the time limits travel with BEGIN, and the claim is one statement that restores the user's settings,
 * because the client returns no rows for a text of several statements. The limits also hold for a lock on the table.
 */
function sendClaim<Tx>(
  { begins, settings }: SteppingParts<Tx>,
  held: SteppingConnection<Tx>,
  { request, context }: ClaimParts,
): Promise<SendAnswer | typeof LATE> {
  const begin = begins ? [beginText(settings.isolation)] : []
  const texts = [...begin, unknownBoundText(boundsOf(request)), ...statementsOf(request, context)]
  return held.send(texts, claimSilenceMs(request))
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
