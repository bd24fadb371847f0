export interface SuspectMessageStatements {
  /** `$1` message ids as a JSON array, `$2` consumer id. Counts 1 for those without a count, and answers their ids. */
  readonly startMessages: string
  /** `$1` message id, `$2` consumer id. Counts one more, and answers the count. */
  readonly startMessageAlone: string
  /** `$1` message ids as an array literal. */
  readonly endMessages: string
}

export function suspectMessageStatements(schema: string): SuspectMessageStatements {
  return {
    startMessages: `
insert into ${schema}.suspect_messages (message_id, consumer_id)
select distinct id::uuid, $2::text::integer from json_array_elements_text($1::text::json) as m(id) order by 1
on conflict (message_id) do nothing
returning message_id::text as answer`,

    startMessageAlone: `
insert into ${schema}.suspect_messages as m (message_id, consumer_id)
values ($1::text::uuid, $2::text::integer)
on conflict (message_id) do update set times = m.times + 1, counted_at = clock_timestamp()
returning times::text as answer`,

    endMessages: `
delete from ${schema}.suspect_messages where message_id = any($1::text::uuid[])`,
  }
}
