export interface SuspectMessageStatements {
  /** `$1` message ids as a JSON array, `$2` consumer id. Counts one more for those without an open read: answers their ids. */
  readonly startMessages: string
  /** `$1` message id, `$2` consumer id. Counts one more, and answers the count. */
  readonly startMessageAlone: string
  /** `$1` message ids as a JSON array, `$2` consumer id. Ends their reads as failed: answers each id with its count. */
  readonly failMessages: string
  /** `$1` message ids as an array literal. */
  readonly endMessages: string
}

export function suspectMessageStatements(schema: string): SuspectMessageStatements {
  return {
    startMessages: `
insert into ${schema}.suspect_messages as m (message_id, consumer_id)
select distinct id::uuid, $2::text::integer from json_array_elements_text($1::text::json) as given(id) order by 1
on conflict (message_id) do update set times = m.times + 1, failed = false, counted_at = clock_timestamp() where m.failed
returning message_id::text as answer`,

    startMessageAlone: `
insert into ${schema}.suspect_messages as m (message_id, consumer_id)
values ($1::text::uuid, $2::text::integer)
on conflict (message_id) do update set times = m.times + 1, failed = false, counted_at = clock_timestamp()
returning times::text as answer`,

    failMessages: `
insert into ${schema}.suspect_messages as m (message_id, consumer_id, failed)
select distinct id::uuid, $2::text::integer, true from json_array_elements_text($1::text::json) as given(id) order by 1
on conflict (message_id) do update set
  times = m.times + m.failed::integer, failed = true, counted_at = clock_timestamp()
returning json_build_array(message_id, times)::text as answer`,

    endMessages: `
delete from ${schema}.suspect_messages where message_id = any($1::text::uuid[])`,
  }
}
