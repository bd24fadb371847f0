import { audit } from './audit.ts'

/** A consumer that is paused: columns of `consumers`. */
export interface PauseStatements {
  /** `$1` consumer id. Answers `PauseRow` if a pause is in force. */
  readonly readPause: string
  /**
   * `$1` consumer id, `$2` ms or null, `$3` source, `$4` by, `$5` why. Changes nothing if a pause is in force that lasts
   * longer.
   */
  readonly writePause: string
  /** `$1` consumer id. */
  readonly endPause: string
  /** `$1` consumer, `$2` by, `$3` why, `$4` until (ISO) or null. An operator: whatever is in force. Answers the consumer. */
  readonly pauseConsumer: string
  /** `$1` consumer, `$2` by, `$3` why. Answers the consumer if a pause was in force. */
  readonly resumeConsumer: string
  /** `$1` consumer. Answers it if it has registered. */
  readonly findConsumer: string
}

/** Answer of `readPause`. */
export interface PauseRow {
  readonly source: 'operator' | 'handler' | 'guard'
  readonly by: string | null
  readonly why: string | null
  readonly forMs: number | null
}

const IN_FORCE =
  'paused_at is not null and (paused_until is null or paused_until > clock_timestamp())'
/** Of a consumer that is not paused. */
const NONE =
  'paused_at = null, paused_until = null, pause_source = null, paused_by = null, paused_why = null'
const END = `clock_timestamp() + $2::text::double precision * interval '1 millisecond'`

export function pauseStatements(schema: string): PauseStatements {
  const audited = (action: string): string =>
    audit(schema, action, {
      from: 'changed',
      id: 'null::uuid',
      why: '$3::text',
      answer: '$1::text',
    })
  return {
    readPause: `
select json_build_object('source', pause_source, 'by', paused_by, 'why', paused_why,
  'forMs', case when paused_until is not null
    then greatest(1, ceil(extract(epoch from paused_until - clock_timestamp()) * 1000)) end)::text as answer
from ${schema}.consumers where id = $1::text::integer and ${IN_FORCE}`,

    writePause: `
update ${schema}.consumers set paused_at = clock_timestamp(), paused_until = ${END},
  pause_source = $3::text, paused_by = $4::text, paused_why = $5::text
where id = $1::text::integer and (not coalesce(${IN_FORCE}, false) or paused_until < coalesce(${END}, 'infinity'))`,

    endPause: `
update ${schema}.consumers set ${NONE} where id = $1::text::integer and paused_at is not null`,

    pauseConsumer: `
with changed as (
  update ${schema}.consumers set paused_at = clock_timestamp(), paused_until = $4::text::timestamptz,
    pause_source = 'operator', paused_by = coalesce($2::text, session_user), paused_why = $3::text
  where name = $1::text
  returning id as consumer_id
)
${audited('pause')}`,

    resumeConsumer: `
with before as (
  select id from ${schema}.consumers where name = $1::text and ${IN_FORCE} for update
),
changed as (
  update ${schema}.consumers c set ${NONE} from before where c.id = before.id returning c.id as consumer_id
)
${audited('resume')}`,

    findConsumer: `select name as answer from ${schema}.consumers where name = $1::text`,
  }
}
