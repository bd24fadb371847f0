export const inbox: string = `
-- The inbox of onceward: design.md §6. migrate() applies it.

-- One row for every event whose effect is committed ("d"), so rows are compact: 68 bytes in the heap, about 40 in
-- the index. The order of the columns leaves no padding. Only events that had trouble are ever
--   r  running: counted before the run, no verdict yet
--   w  waiting: for its next attempt, or parked
--   x  dead
-- A statement that changes failed_events of an event locks the row of the event here first, unless it changes one row
-- that its own token fences.
create table :"schema".processed_events (
  event_id uuid primary key,
  fingerprint bigint not null,
  processed_at timestamptz not null default now(),
  consumer_id integer not null,
  state "char" not null default 'd'
);

-- Details of r, w and x. This table decides about attempts. The transaction that succeeds deletes the row.
-- Text made from a message is escaped as in JSON strings (key, tenant, source), or has its NULs replaced (error).
create table :"schema".failed_events (
  event_id uuid primary key,
  consumer_id integer not null,
  attempt integer not null,                 -- runs that began, crashes included
  no_verdict integer not null default 0,    -- runs without a verdict, such as a lost connection
  token uuid,                               -- owner of the last count; the fence of fail, bury and release
  counted_at timestamptz,                   -- time of the last count, by this server's clock
  next_try timestamptz not null default now(),
  first_failed_at timestamptz not null default now(),
  last_failed_at timestamptz not null default now(),
  parked boolean not null default false,    -- the delivery is stored here; no broker redelivers it
  alone boolean not null default false,     -- replayed: no other event runs in the process meanwhile
  published boolean not null default false, -- x: published to the dead-letter place
  publisher uuid,                           -- x: who has the right to publish it, until publish_until
  publish_until timestamptz,                -- by this server's clock
  discarded_at timestamptz,                 -- x: an operator discarded it
  reason text,                              -- only in state x
  error text,
  key text not null,
  tenant text,
  source text,
  properties bytea,                         -- JSON: content type, message id, ordering key, produced at
  envelope bytea,                           -- the adapter's lossless encoding of the message, without its body
  headers bytea,                            -- JSON
  body bytea,                               -- empty if the body is in parts
  body_bytes bigint,                        -- greater than the stored size: the body was too large to store
  body_parts integer not null default 0     -- in failed_event_parts
);

-- Large bodies, in pieces that need little memory.
create table :"schema".failed_event_parts (
  event_id uuid not null references :"schema".failed_events on delete cascade,
  part integer not null,
  bytes bytea not null,
  primary key (event_id, part)
);

create index failed_events_parked on :"schema".failed_events (consumer_id, next_try) where parked;
create index failed_events_dead on :"schema".failed_events (last_failed_at, event_id) where reason is not null;

-- Messages refused before they became an event: conflicts, messages without a key, undecodable messages.
create table :"schema".refused_messages (
  refused_id uuid primary key,              -- leading 128 bits of SHA-256 over the message
  consumer_id integer not null,
  times integer not null default 1,         -- how often it was refused
  next_try timestamptz not null default now(),
  first_failed_at timestamptz not null default now(),
  last_failed_at timestamptz not null default now(),
  parked boolean not null default false,
  replay boolean not null default false,    -- an operator asked for a run
  published boolean not null default false,
  publisher uuid,                           -- as in failed_events
  publish_until timestamptz,
  reason text not null,
  error text,
  key text,
  source text not null,
  properties bytea not null,
  envelope bytea,
  headers bytea not null,
  body bytea not null,
  body_bytes bigint not null,
  body_parts integer not null default 0     -- in refused_message_parts
);

create table :"schema".refused_message_parts (
  refused_id uuid not null references :"schema".refused_messages on delete cascade,
  part integer not null,
  bytes bytea not null,
  primary key (refused_id, part)
);

create index refused_messages_parked on :"schema".refused_messages (consumer_id, next_try) where parked;
create index refused_messages_age on :"schema".refused_messages (last_failed_at, refused_id);

-- Messages that are being read again (decoded, checked, identified), and those whose read failed. A row that stays and
-- is not failed is of a message whose reader died, and the message is read alone next time. The id is the one that the
-- message has when it is refused.
create table :"schema".suspect_messages (
  message_id uuid primary key,
  consumer_id integer not null,
  times integer not null default 1,         -- reads that began
  failed boolean not null default false,    -- the last read ended with an error; false: it has not ended
  counted_at timestamptz not null default now()
);

-- json, not jsonb: jsonb refuses the NUL and the lone surrogates that a JavaScript string may hold.
create table :"schema".event_results (
  event_id uuid primary key,
  result json not null
);

create table :"schema".consumers (
  id integer generated always as identity primary key,
  name text not null unique,
  dedup_window_ms bigint not null,
  fingerprint_rule smallint not null,
  has_place boolean not null default false,   -- a guard has published a dead letter, or tried to
  seen_at timestamptz not null default now(), -- when a guard with this window last registered
  owner name not null default session_user   -- the login that registered it first, for docs/least-privilege.sql
);

-- The consumers of this session's login and of the roles it belongs to. The row-level security of docs/least-privilege.sql
-- asks it, and nothing else does.
create function :"schema".my_consumers() returns integer[]
  language sql stable security definer set search_path = pg_catalog, pg_temp
  as $$
    select coalesce(array_agg(id), '{}') from :"schema".consumers
    where pg_has_role(session_user, to_regrole(quote_ident(owner)), 'member')
  $$;

revoke execute on function :"schema".my_consumers() from public;

create table :"schema".settings (
  only_row boolean primary key default true check (only_row),
  secret bytea not null,                     -- for hashed keys in logs and metrics
  epoch uuid not null default gen_random_uuid(), -- of the history of commits, see forget_history
  sweep_cursor bigint not null default 0,    -- next page of processed_events to sweep
  swept_at timestamptz,                      -- time of the last step of a sweep; null: any time is right
  clock integer not null default 0           -- how often an operator has confirmed the clock
);

insert into :"schema".settings (secret)
values (sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())));

-- Redis answers "duplicate" for up to two hours without asking this database. The epoch is part of the name under which
-- it remembers (design.md §7), so a new epoch makes it forget. Operators call this after every restore of data. The epoch
-- is random: a number that is counted up would come back with the settings of an old dump.
create function :"schema".forget_history() returns void
  language sql security definer set search_path = pg_catalog, pg_temp
  as $$ update :"schema".settings set epoch = gen_random_uuid() $$;

-- By hand, deleting rows or changing their state needs no call. The sweep names itself: it deletes only rows that are
-- older than every mark in Redis. Inserts fire none of these triggers, so the clean path pays nothing for them.
create function :"schema".forget_removed() returns trigger
  language plpgsql security definer set search_path = pg_catalog, pg_temp
  as $$ begin
    if exists (select from removed where state = 'd') then perform :"schema".forget_history(); end if;
    return null;
  end $$;

create trigger forget_removed after delete on :"schema".processed_events
  referencing old table as removed for each statement
  when (current_setting('onceward.sweep', true) is distinct from 'on')
  execute function :"schema".forget_removed();

create function :"schema".forget_changed() returns trigger
  language plpgsql security definer set search_path = pg_catalog, pg_temp
  as $$ begin
    perform :"schema".forget_history();
    return null;
  end $$;

create trigger forget_changed after update of state on :"schema".processed_events
  for each row when (old.state = 'd' and new.state <> 'd')
  execute function :"schema".forget_changed();

-- The settings of a dump come with an epoch that was in use before.
create function :"schema".forget_restored() returns trigger
  language plpgsql set search_path = pg_catalog, pg_temp
  as $$ begin
    new.epoch := gen_random_uuid();
    return new;
  end $$;

create trigger forget_restored before insert on :"schema".settings
  for each row execute function :"schema".forget_restored();

revoke execute on function :"schema".forget_history() from public;

-- The sweep deletes nothing while it doubts this server's clock, which may have been set. An operator says that it is right.
create function :"schema".trust_clock() returns void
  language sql security definer set search_path = pg_catalog, pg_temp
  as $$ update :"schema".settings set swept_at = null, clock = clock + 1 $$;

revoke execute on function :"schema".trust_clock() from public;

-- Actions of operators on dead letters.
create table :"schema".audit (
  id bigint generated always as identity primary key,
  at timestamptz not null default now(),
  who text not null default session_user,
  action text not null,
  target uuid not null,
  consumer_id integer not null,
  why text
);

-- The id of an event, computed as packages/core/src/identity/event-id.ts does. A tenant or key of more than 1,024 bytes is
-- replaced by its hash.
create function :"schema".event_id(consumer text, tenant text, key text) returns uuid
  language sql immutable parallel safe
  return (
    select encode(
      substring(
        sha256(
          int4send(octet_length(c)) || c
          || int4send(octet_length(t)) || t
          || int4send(octet_length(k)) || k
        )
        from 1 for 16
      ),
      'hex'
    )::uuid
    from (
      select convert_to(consumer, 'UTF8') as c,
        case when octet_length(convert_to(tenant, 'UTF8')) > 1024
          then convert_to('sha256:' || encode(sha256(convert_to(tenant, 'UTF8')), 'hex'), 'UTF8')
          else convert_to(coalesce(tenant, ''), 'UTF8') end as t,
        case when octet_length(convert_to(key, 'UTF8')) > 1024
          then convert_to('sha256:' || encode(sha256(convert_to(key, 'UTF8')), 'hex'), 'UTF8')
          else convert_to(key, 'UTF8') end as k
    ) as fields
  );
`
