-- Roles for a database that onceward shares with others. Run once, after `migrate`, as the owner of the tables:
--   psql -v schema=onceward -f least-privilege.sql
-- The owner migrates, and the rules below do not bind the owner. Consumers and operators need no DDL.
-- Grant the roles to the logins of your services and people: `grant onceward_consumer to billing`. Give every service
-- and every person a login of their own: the rules tell them apart by the login of the session.
-- A test runs under these roles, for every sentence below.

-- Roles belong to the whole server: for a second database on it, leave these three lines out.
create role onceward_consumer;
create role onceward_operator;
create role onceward_relay;

grant usage on schema :"schema" to onceward_consumer, onceward_operator, onceward_relay;

-- A consumer belongs to the login that registers it first. To give it to another: `update onceward.consumers set owner = …`
-- as the owner of the tables. Members of the owning role share its consumers.

-- From here on a role without a policy sees no rows of these tables. The owner of the tables and superusers see all.
alter table :"schema".processed_events enable row level security;
alter table :"schema".failed_events enable row level security;
alter table :"schema".refused_messages enable row level security;
alter table :"schema".suspect_messages enable row level security;
alter table :"schema".failed_event_parts enable row level security;
alter table :"schema".refused_message_parts enable row level security;
alter table :"schema".event_results enable row level security;
alter table :"schema".consumers enable row level security;
alter table :"schema".audit enable row level security;
alter table :"schema".workers enable row level security;
alter table :"schema".outbox_messages enable row level security;
alter table :"schema".kafka_offsets enable row level security;

---- A guard: claims, verdicts, dead letters, sweep.
grant select on :"schema".migrations to onceward_consumer;
grant select, insert, update, delete
  on :"schema".processed_events, :"schema".failed_events, :"schema".refused_messages, :"schema".event_results,
    :"schema".suspect_messages, :"schema".failed_event_parts, :"schema".refused_message_parts
  to onceward_consumer;
grant execute on function :"schema".event_id(text, text, text), :"schema".my_consumers() to onceward_consumer;

-- It reads, writes and deletes its own dead letters, failures, refused messages and counts of messages that are read,
-- and nobody else's.
create policy consumer on :"schema".failed_events to onceward_consumer
  using (consumer_id = any ((select :"schema".my_consumers())::integer[]));
create policy consumer on :"schema".refused_messages to onceward_consumer
  using (consumer_id = any ((select :"schema".my_consumers())::integer[]));
create policy consumer on :"schema".suspect_messages to onceward_consumer
  using (consumer_id = any ((select :"schema".my_consumers())::integer[]));

-- A large message is stored in pieces, which belong to whom their row belongs to.
create policy consumer on :"schema".failed_event_parts to onceward_consumer
  using (exists (select from :"schema".failed_events f where f.event_id = failed_event_parts.event_id));
create policy consumer on :"schema".refused_message_parts to onceward_consumer
  using (exists (select from :"schema".refused_messages r where r.refused_id = refused_message_parts.refused_id));

-- It sees which events are known: hashes, times and states. It writes only its own, and deletes only its own and those
-- that any guard may sweep: done, and older than the dedup window of their consumer.
create policy consumer_reads on :"schema".processed_events for select to onceward_consumer using (true);
create policy consumer_inserts on :"schema".processed_events for insert to onceward_consumer
  with check (consumer_id = any ((select :"schema".my_consumers())::integer[]));
create policy consumer_updates on :"schema".processed_events for update to onceward_consumer
  using (consumer_id = any ((select :"schema".my_consumers())::integer[]));
create policy consumer_deletes on :"schema".processed_events for delete to onceward_consumer
  using (
    consumer_id = any ((select :"schema".my_consumers())::integer[])
    or state = 'd' and processed_at < now() - (
      select c.dedup_window_ms * interval '1 millisecond' from :"schema".consumers c where c.id = consumer_id
    )
  );

-- The result of an event follows its row: nobody reads, writes or deletes another consumer's, except to sweep it.
create policy consumer on :"schema".event_results to onceward_consumer
  using (exists (
    select from :"schema".processed_events p join :"schema".consumers c on c.id = p.consumer_id
    where p.event_id = event_results.event_id and (
      p.consumer_id = any ((select :"schema".my_consumers())::integer[])
      or p.state = 'd' and p.processed_at < now() - c.dedup_window_ms * interval '1 millisecond'
    )
  ))
  with check (exists (
    select from :"schema".processed_events p
    where p.event_id = event_results.event_id
      and p.consumer_id = any ((select :"schema".my_consumers())::integer[])
  ));

-- It sees which consumers there are, and registers and changes only its own. It cannot give itself another's.
grant select on :"schema".consumers to onceward_consumer;
grant insert (name, dedup_window_ms, fingerprint_rule) on :"schema".consumers to onceward_consumer;
grant update (dedup_window_ms, fingerprint_rule, seen_at, has_place, worker_ended_at) on :"schema".consumers to onceward_consumer;
grant update (paused_at, paused_until, pause_source, paused_by, paused_why) on :"schema".consumers to onceward_consumer;
create policy consumer_reads on :"schema".consumers for select to onceward_consumer using (true);
create policy consumer_inserts on :"schema".consumers for insert to onceward_consumer with check (owner = session_user);
create policy consumer_updates on :"schema".consumers for update to onceward_consumer
  using (id = any ((select :"schema".my_consumers())::integer[]));

-- It sees whether an operator has acted on its consumers: a guard whose first messages are all refused pauses until then.
grant select on :"schema".audit to onceward_consumer;
create policy consumer_reads on :"schema".audit for select to onceward_consumer
  using (consumer_id = any ((select :"schema".my_consumers())::integer[]));

-- It sees which workers there are, and writes and deletes only its own.
grant select, insert, update, delete on :"schema".workers to onceward_consumer;
create policy consumer_reads on :"schema".workers for select to onceward_consumer using (true);
create policy consumer on :"schema".workers to onceward_consumer
  using (consumer_id = any ((select :"schema".my_consumers())::integer[]));

-- It sends messages, and neither reads nor changes them afterwards.
grant insert on :"schema".outbox_messages to onceward_consumer;
create policy consumer_sends on :"schema".outbox_messages for insert to onceward_consumer with check (true);

-- It keeps the offsets of its consumers with identity: 'offsets'.
grant select, insert, update on :"schema".kafka_offsets to onceward_consumer;
create policy consumer on :"schema".kafka_offsets to onceward_consumer
  using (consumer_id = any ((select :"schema".my_consumers())::integer[]));

-- It reads the settings, and moves the place and the time of the sweep, which all guards share.
grant select on :"schema".settings to onceward_consumer;
grant update (sweep_cursor, swept_at) on :"schema".settings to onceward_consumer;

-- Only for `postgresLeases`. Leases have no consumer, so all guards that use them trust each other: leave these two out
-- if nobody does.
grant select, insert, update, delete on :"schema".leases to onceward_consumer;
grant execute on function :"schema".claim_leases(json) to onceward_consumer;

-- These grants do not prevent the following: a consumer that computes the event id of another consumer's event can take that id for
-- itself, and the other one's event is then taken for a duplicate. Services that are hostile to each other need
-- a schema each: `migrate(pool, { schema })`.

---- A relay of the outbox: `startRelay`, `npx onceward relay`. A consumer that relays in its own process needs this role too.
grant select on :"schema".migrations to onceward_relay;
grant select, insert, update, delete on :"schema".outbox_leases to onceward_relay;

-- It reads and deletes the messages of all consumers, and writes how often they were refused. It sends none, changes none,
-- and sees no event.
grant select, delete on :"schema".outbox_messages to onceward_relay;
grant update (state, attempt, due_at, failed_at, error) on :"schema".outbox_messages to onceward_relay;
create policy relay on :"schema".outbox_messages to onceward_relay using (true);

---- deadLetters(pool): list, show, replay, requeue, discard; forgetHistory(pool) after a restore, and the word that the clock is
---- right.
grant select
  on :"schema".migrations, :"schema".processed_events, :"schema".failed_events, :"schema".refused_messages,
    :"schema".failed_event_parts, :"schema".refused_message_parts, :"schema".event_results, :"schema".consumers,
    :"schema".audit, :"schema".workers
  to onceward_operator;
grant execute on function :"schema".event_id(text, text, text), :"schema".forget_history(), :"schema".trust_clock()
  to onceward_operator;
create policy operator_reads on :"schema".event_results for select to onceward_operator using (true);
create policy operator_reads on :"schema".consumers for select to onceward_operator using (true);
create policy operator_reads on :"schema".workers for select to onceward_operator using (true);
create policy operator_reads on :"schema".audit for select to onceward_operator using (true);
create policy operator_reads on :"schema".processed_events for select to onceward_operator using (true);
create policy operator_reads on :"schema".failed_events for select to onceward_operator using (true);
create policy operator_reads on :"schema".refused_messages for select to onceward_operator using (true);
create policy operator_reads on :"schema".failed_event_parts for select to onceward_operator using (true);
create policy operator_reads on :"schema".refused_message_parts for select to onceward_operator using (true);

-- For `npx onceward status` and `explain`: when was swept, the history that Redis remembers for, running leases. Not the
-- secret of the hashed keys.
grant select (epoch, sweep_cursor, swept_at) on :"schema".settings to onceward_operator;
grant select on :"schema".leases to onceward_operator;

-- An operator makes a dead event wait for a run, and gives up one that was dead and is being sent back to its queue. It lets
-- a done event run again only if a statement of its handler came too late. It changes nothing else about events: it cannot
-- claim that an event is done, make another done event run again, stop one that waits for its next attempt, or insert or
-- delete one.
grant update (state) on :"schema".processed_events to onceward_operator;
create policy operator_replays on :"schema".processed_events for update to onceward_operator
  using (state = 'x' or state in ('w', 'd') and exists (
    select from :"schema".failed_events f where f.event_id = processed_events.event_id
      and case processed_events.state when 'd' then f.reason = 'late-statement' else f.reason is not null end
  ))
  with check (state = 'w' or state = 'x' and exists (
    select from :"schema".failed_events f where f.event_id = processed_events.event_id and f.reason is not null
  ));

-- It changes dead letters, because replaying and discarding do, so it is trusted with the message that a replay runs. It
-- cannot change the failures of events that are not dead, or make them those of another event.
grant update (attempt, no_verdict, defers, token, counted_at, next_try, parked, alone, published, publisher, publish_until,
    discarded_at, reason, source, properties, envelope, headers, body, body_bytes, body_parts)
  on :"schema".failed_events to onceward_operator;
grant update on :"schema".refused_messages to onceward_operator;
create policy operator_replays on :"schema".failed_events for update to onceward_operator
  using (reason is not null) with check (true);
create policy operator_replays on :"schema".refused_messages for update to onceward_operator using (true);
grant delete on :"schema".refused_messages, :"schema".failed_event_parts to onceward_operator;
create policy operator_discards on :"schema".failed_event_parts for delete to onceward_operator using (true);
create policy operator_discards on :"schema".refused_messages for delete to onceward_operator using (true);

-- It reads the messages of the outbox. It sends dead ones again or gives them up, and changes nothing else about them.
grant select on :"schema".outbox_leases to onceward_operator;
grant select, delete on :"schema".outbox_messages to onceward_operator;
grant update (state, attempt) on :"schema".outbox_messages to onceward_operator;
create policy operator_reads on :"schema".outbox_messages for select to onceward_operator using (true);
create policy operator_replays on :"schema".outbox_messages for update to onceward_operator
  using (state = 'x') with check (state = 'q');
create policy operator_discards on :"schema".outbox_messages for delete to onceward_operator using (state = 'x');

-- It reads the offsets of consumers, and says where they go on.
grant select, update on :"schema".kafka_offsets to onceward_operator;
create policy operator on :"schema".kafka_offsets to onceward_operator using (true);

-- It pauses consumers, resumes them and removes those that are gone, and changes nothing else about them.
grant update (paused_at, paused_until, pause_source, paused_by, paused_why, removed_at) on :"schema".consumers to onceward_operator;
create policy operator_pauses on :"schema".consumers for update to onceward_operator using (true);

-- A replay lets the message be read again.
grant select, delete on :"schema".suspect_messages to onceward_operator;
create policy operator_replays on :"schema".suspect_messages to onceward_operator using (true);

-- It writes in `audit` what it did, in the name of its login and of nobody else (so leave out the option `by`), and can
-- neither change nor delete what is written.
grant insert (who, action, target, consumer_id, why) on :"schema".audit to onceward_operator;
create policy operator_writes on :"schema".audit for insert to onceward_operator with check (who = session_user);
