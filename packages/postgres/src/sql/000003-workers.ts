export const workers: string = `
-- Which guards run now. Nothing relies on it: it tells operators whether a consumer has a worker.
create table :"schema".workers (
  worker_id uuid primary key,               -- of one guard in one process
  consumer_id integer not null,
  name text not null,                       -- host and process id
  started_at timestamptz not null default now(),
  seen_at timestamptz not null default now() -- time of the last heartbeat, by this server's clock
);

-- When the last of its workers that was closed in good order ended. One that was killed leaves its row of workers.
alter table :"schema".consumers add column worker_ended_at timestamptz;
`
