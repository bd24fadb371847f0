import type { BeginClaim } from '@onceward/core/ports'
import { SETTING_COLUMNS } from '../driver/session-settings.ts'
import { inline } from '../driver/sql-literal.ts'
import {
  type Bounds,
  boundTextOf,
  type ClaimTarget,
  claimTexts,
  freshArrays,
  freshRowsOf,
  IDS,
  READ_SESSION,
  RESTORE,
  unknownBoundText,
} from './claim-sql.ts'

/*
 * The claim for clients that give only the rows of one statement back, and may rename, retype or merge their columns: the
 * last statement answers one row with one column, `answer`, which is a JSON text.
 */

const SESSION = READ_SESSION.replace(/^select /, '')

const answering = (select: string): string =>
  `select pg_catalog.row_to_json(claim)::pg_catalog.text as answer from (${select}) claim`

type Target = Omit<ClaimTarget, 'returning'>
type FreshClaim = Extract<BeginClaim, { readonly kind: 'fresh' }>

/** A statement that is the same for all events, so that a client may prepare it once. */
export interface PreparedClaim {
  readonly text: string
  readonly values: readonly string[]
}

/**
 * The claim of fresh events is one statement, which also sets its limits and restores the user's. It does not limit the
 * wait for a lock on the table, which comes before them: the caller does.
 */
export function preparedClaim(
  { events }: FreshClaim,
  { schema, consumerId }: Target,
  { lockMs, budgetMs }: Bounds,
): PreparedClaim {
  const { ids, fingerprints } = freshArrays(events)
  return {
    text: freshText(schema),
    values: [ids, fingerprints, String(consumerId), String(lockMs), String(budgetMs)],
  }
}

/** The statements of a claim for a client that takes no parameters. */
export function answeringTexts(
  claim: BeginClaim,
  target: Target,
  bounds: Bounds,
): readonly string[] {
  if (claim.kind === 'fresh') {
    const { text, values } = preparedClaim(claim, target, bounds)
    return [inline(text, values)]
  }
  const limits = unknownBoundText(bounds)
  if (claim.kind === 'none') return [limits, answering(`select ${SESSION}, ${RESTORE}`)]
  const id = claim.kind === 'move' ? 'partition_id as event_id' : 'event_id'
  const texts = claimTexts(claim, { ...target, returning: ` returning ${id}, xmin` })
  // Restored over the aggregate: in `returning`, the limit would be gone after the first row.
  const taken = `with taken as (${texts.at(-1)})`
  const all = `select ${IDS}, ${SESSION}, ${RESTORE} from taken`
  return [limits, ...texts.slice(0, -1), `${taken} ${answering(all)}`]
}

const textOf = (parameter: string): string => `${parameter}::pg_catalog.text`
const known = ['pid', ...SETTING_COLUMNS].map((name) => `bound.${name}`).join(', ')
const texts = new Map<string, string>()

/** `bound` is read by the insert, so its limits are set before it begins, and `ids` has all of its rows. */
function freshText(schema: string): string {
  const found = texts.get(schema)
  if (found !== undefined) return found
  const limits = boundTextOf({
    lock: textOf('$4'),
    budget: textOf('$5'),
    interval: `pg_catalog.concat(${textOf('$5')}, ' milliseconds')::pg_catalog.interval`,
  })
  const rows = freshRowsOf(textOf('$1'), textOf('$2'), `${textOf('$3')}::pg_catalog.int4`)
  const text = `with bound as materialized (${limits}),
taken as (insert into ${schema}.processed_events (event_id, fingerprint, consumer_id) select made.* from bound, (${rows}) made on conflict (event_id) do nothing returning event_id, xmin),
ids as materialized (select ${IDS} from taken)
${answering(`select ids.ids, ids.xid, ${known}, ${RESTORE} from bound, ids`)}`
  texts.set(schema, text)
  return text
}
