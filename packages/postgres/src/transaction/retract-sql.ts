/** Undoes only rows that this transaction committed. Rows of events with failures go back to `r`. */
export function retractText(schema: string): string {
  return `
with mine as materialized (
  select event_id from ${schema}.processed_events
  where event_id = any($1::text::uuid[]) and state = 'd' and xmin::text = $2::text
  order by event_id for update
),
again as (
  update ${schema}.processed_events p set state = 'r' from mine join ${schema}.failed_events f using (event_id)
  where p.event_id = mine.event_id
)
delete from ${schema}.processed_events p using mine
where p.event_id = mine.event_id
  and not exists (select from ${schema}.failed_events f where f.event_id = p.event_id)`
}
