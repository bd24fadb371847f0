import { migrate } from '@onceward/postgres'
import { database, redis } from '@onceward/testing'
import { Redis } from 'ioredis'
import pg from 'pg'

/** What handlers work on. Roles belong to the whole server, so other tests may have made this one. */
const OBJECTS = `
do $$ begin
  if not exists (select from pg_roles where rolname = 'zoo_limited') then create role zoo_limited; end if;
exception when duplicate_object or unique_violation then null; end $$;
create schema zoo;
grant usage on schema zoo to public;
create table zoo.effects (id bigserial primary key, consumer text, event int, run int, part text);
create index on zoo.effects (consumer);
create table zoo.once (a int primary key);
insert into zoo.once values (1);
create table zoo.deferred (code text);
create function zoo.refuse() returns trigger language plpgsql as
  $$ begin raise exception 'at commit' using errcode = new.code; end $$;
create constraint trigger refused after insert on zoo.deferred
  deferrable initially deferred for each row execute function zoo.refuse();
create procedure zoo.commits() language plpgsql as $$ begin commit; end $$;
grant all on all tables in schema zoo to public;
grant all on all sequences in schema zoo to public;
create schema zoo_hostile;
grant usage on schema zoo_hostile to public;
create function zoo_hostile.clock_timestamp() returns timestamptz language sql as $$ select timestamptz 'epoch' $$;
create function zoo_hostile.now() returns timestamptz language sql as $$ select timestamptz 'epoch' $$;
create function zoo_hostile.set_config(text, text, boolean) returns text language sql as $$ select 'hostile' $$;
create function zoo_hostile.current_setting(text) returns text language sql as $$ select '1' $$;
create function zoo_hostile.differ(uuid, uuid) returns boolean language sql as $$ select false $$;
create operator zoo_hostile.= (leftarg = uuid, rightarg = uuid, function = zoo_hostile.differ);
create domain zoo_hostile.uuid as integer;
create domain zoo_hostile.text as integer;
create table zoo_hostile.processed_events (event_id integer)`

/** One database for all cases of a campaign. */
export interface Testbed {
  readonly url: string
  /** For the judge's questions, never used by a guard. */
  readonly admin: pg.Pool
  /** Undefined where no guard has leases in Redis. */
  readonly redis?: Redis | undefined
  close(): Promise<void>
}

export async function openTestbed(): Promise<Testbed> {
  const { url } = await database()
  const admin = new pg.Pool({ connectionString: url, max: 2 })
  await migrate(admin)
  await admin.query(OBJECTS)
  const server = await redis()
  const client = new Redis(server.connection.port)
  const close = async (): Promise<void> => {
    await admin.end()
    client.disconnect()
    await server.stop()
  }
  return { url, admin, redis: client, close }
}
