-- Roles for a database that onceward shares with others. Run once, after `migrate`, as the owner of the tables:
--   psql -v schema=onceward -f least-privilege.sql
-- The owner migrates; consumers and operators need no DDL, and neither can rewrite what was done.
-- Grant the roles to the logins of your services and people: `grant onceward_consumer to billing`.

-- Roles belong to the whole server: for a second database on it, leave these two lines out.
create role onceward_consumer;
create role onceward_operator;

grant usage on schema :"schema" to onceward_consumer, onceward_operator;

-- A guard: claims, verdicts, dead letters, sweep.
grant select on :"schema".migrations to onceward_consumer;
grant select, insert, update, delete
  on :"schema".processed_events, :"schema".failed_events, :"schema".refused_messages, :"schema".event_results,
    :"schema".leases
  to onceward_consumer;
grant select, insert, update on :"schema".consumers to onceward_consumer;
grant select on :"schema".settings to onceward_consumer;
grant update (sweep_cursor) on :"schema".settings to onceward_consumer;
grant execute on function :"schema".event_id(text, text, text), :"schema".claim_leases(json) to onceward_consumer;

-- deadLetters(pool): list, show, replay, discard. No inserts: an operator cannot claim that an event is done.
grant select
  on :"schema".migrations, :"schema".processed_events, :"schema".failed_events, :"schema".refused_messages,
    :"schema".event_results, :"schema".consumers, :"schema".audit
  to onceward_operator;
grant update on :"schema".processed_events, :"schema".failed_events, :"schema".refused_messages to onceward_operator;
grant delete on :"schema".refused_messages to onceward_operator;
grant insert on :"schema".audit to onceward_operator;
grant execute on function :"schema".event_id(text, text, text) to onceward_operator;
