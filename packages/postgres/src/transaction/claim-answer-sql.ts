import type { BeginClaim } from '@onceward/core/ports'
import { SETTING_COLUMNS } from '../driver/session-settings.ts'
import {
  type Bounds,
  type ClaimTarget,
  claimTexts,
  freshRows,
  READ_SESSION,
  RESTORE,
  unknownBoundText,
} from './claim-sql.ts'

/*
 * The claim for clients that give only the rows of one statement back, and may rename, retype or merge their columns: the
 * last statement answers one row with one column, `answer`, which is a JSON text.
 */

const IDS = `pg_catalog.string_agg(event_id::pg_catalog.text, ',') as ids, pg_catalog.min(xmin::pg_catalog.text) as xid`
const SESSION = READ_SESSION.replace(/^select /, '')

const answering = (select: string): string =>
  `select pg_catalog.row_to_json(claim)::pg_catalog.text as answer from (${select}) claim`

/**
 * The claim of fresh events is one statement, which also sets its limits and restores the user's. It does not limit the
 * wait for a lock on the table, which comes before them: the caller does.
 */
export function answeringTexts(
  claim: BeginClaim,
  target: Omit<ClaimTarget, 'returning'>,
  bounds: Bounds,
): readonly string[] {
  if (claim.kind === 'fresh') return [freshText(claim, target, bounds)]
  const limits = unknownBoundText(bounds)
  if (claim.kind === 'none') return [limits, answering(`select ${SESSION}, ${RESTORE}`)]
  const texts = claimTexts(claim, { ...target, returning: ' returning event_id, xmin' })
  // Restored over the aggregate: in `returning`, the limit would be gone after the first row.
  const taken = `with taken as (${texts.at(-1)})`
  const all = `select ${IDS}, ${SESSION}, ${RESTORE} from taken`
  return [limits, ...texts.slice(0, -1), `${taken} ${answering(all)}`]
}

/** `bound` is read by the insert, so its limits are set before it begins, and `made` has all of its rows. */
function freshText(
  { events }: Extract<BeginClaim, { readonly kind: 'fresh' }>,
  { schema, consumerId }: Omit<ClaimTarget, 'returning'>,
  bounds: Bounds,
): string {
  const known = ['pid', ...SETTING_COLUMNS].map((name) => `bound.${name}`).join(', ')
  return `with bound as materialized (${unknownBoundText(bounds)}),
taken as (insert into ${schema}.processed_events (event_id, fingerprint, consumer_id) select made.* from bound, (${freshRows(events, consumerId)}) made on conflict (event_id) do nothing returning event_id, xmin),
ids as materialized (select ${IDS} from taken)
${answering(`select ids.ids, ids.xid, ${known}, ${RESTORE} from bound, ids`)}`
}
