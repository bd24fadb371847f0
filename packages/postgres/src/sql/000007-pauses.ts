export const pauses: string = `
-- A consumer that is paused (design.md §17): its guards read it every two seconds and start nothing meanwhile.
alter table :"schema".consumers
  add column paused_at timestamptz,         -- null: not paused
  add column paused_until timestamptz,      -- null: until it is resumed; by this server's clock
  add column pause_source text,             -- operator, handler, guard
  add column paused_by text,
  add column paused_why text;

-- What is done to a consumer has no event as its target.
alter table :"schema".audit alter column target drop not null;

-- How often handlers have deferred the event (context.defer) without an attempt.
alter table :"schema".failed_events add column defers integer not null default 0;
`
