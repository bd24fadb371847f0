import type { BeginClaim, BeginRequest } from '@onceward/core/ports'
import type { BeginContext } from '../driver/driver.ts'
import type { SessionSettings } from '../driver/session-settings.ts'
import {
  boundsOf,
  claimedByCount,
  countOf,
  type Taken,
  takenIn,
  takenInRows,
} from '../transaction/claim.ts'
import {
  beginText,
  type ClaimTarget,
  claimTexts,
  FEW_ROWS,
  frameOf,
  type Isolation,
  isOfFewRows,
  RESTORE,
  restoreText,
  takingTexts,
  unknownBoundText,
} from '../transaction/claim-sql.ts'
import type { PgAnswer } from './pg-query.ts'

/** The row of the statement that reads the settings of the session. */
export function sessionIn(answers: readonly PgAnswer[]): PgAnswer['rows'][number] {
  return answers.find(({ rows }) => rows[0]?.['pid'] !== undefined)?.rows[0] ?? {}
}

export interface TextParts {
  readonly request: BeginRequest
  readonly context: BeginContext
  readonly isolation: Isolation
  readonly handlerLockTimeout: string | undefined
}

/** All statements before the handler in one text, for one round trip. */
export function textsOf(
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

export function readClaim({ claim }: BeginRequest, answers: readonly PgAnswer[]): Taken {
  const isOfFew = isOfFewRows(claim)
  if (countOf(claim) > 1 && !isOfFew) {
    return takenIn(answers.find(({ rows }) => rows[0]?.['ids'] !== undefined)?.rows[0])
  }
  const command = claim.kind === 'fresh' ? 'INSERT' : 'UPDATE'
  const answer = answers.find((each) => each.command === command)
  if (isOfFew) return takenInRows(answer?.rows ?? [])
  return { claimed: claimedByCount(claim, answer?.rowCount ?? 0), xid: undefined }
}
