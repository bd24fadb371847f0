export const leases: string = `
-- Leases in Postgres: design.md §4 and §7, for guards without Redis. migrate() applies it.

-- One row for every event that is claimed, waits, or is remembered. With an inbox the row is deleted when the event ends.
create table :"schema".leases (
  event_id uuid primary key,
  fingerprint bigint not null,
  ends_at timestamptz not null,             -- p: end of the lease; w: end of the wait
  forget_at timestamptz not null,           -- long after ends_at, or a takeover would look like a first claim
  attempt integer not null,
  state "char" not null,                    -- p in progress, w waiting, d done, x dead
  parked boolean not null default false,
  taken text not null,                      -- first, takeover or retry: a repeated claim gets the same answer
  owner text not null,                      -- token of the claim; every change checks it
  reason text,                              -- x
  result json                               -- d; not jsonb: that refuses the NUL and lone surrogates
);

create index leases_forget on :"schema".leases (forget_at);

-- The column "claim" of the state machine, for many events in one statement. Each decision is made under the lock of
-- its row and by the clock of that moment. Rows are locked in the order of their ids, or two batches deadlock.
-- Takes an array of {id, fingerprint, owner, leaseMs, most, keepMs}; answers one ClaimResult for each, by place.
create function :"schema".claim_leases(claims json) returns table (place bigint, answer json)
language plpgsql
set search_path = :"schema", pg_catalog, pg_temp
as $$
declare
  claim record;
  held leases%rowtype;
  moment timestamptz;
  is_new boolean;
  remaining_ms numeric;
begin
  for claim in
    select a.place, (a.claim ->> 'id')::uuid as id, (a.claim ->> 'fingerprint')::bigint as fingerprint,
      a.claim ->> 'owner' as owner, (a.claim ->> 'leaseMs')::float8 * interval '1 millisecond' as lease,
      (a.claim ->> 'most')::integer as most, (a.claim ->> 'keepMs')::float8 * interval '1 millisecond' as keep
    from json_array_elements(claims) with ordinality as a (claim, place)
    order by id, a.place
  loop
    place := claim.place;
    loop
      moment := clock_timestamp();
      select * into held from leases where event_id = claim.id;
      -- A done or dead event is read without a lock, so a duplicate writes nothing.
      exit when found and held.state in ('d', 'x') and held.forget_at > moment;
      insert into leases (event_id, fingerprint, ends_at, forget_at, attempt, state, taken, owner)
      values (claim.id, claim.fingerprint, moment + claim.lease, moment + claim.lease + claim.keep, 1, 'p', 'first', claim.owner)
      on conflict do nothing;
      is_new := found;
      exit when is_new;
      select * into held from leases where event_id = claim.id for update;
      -- The row was released meanwhile: start again.
      exit when found;
    end loop;
    if is_new then
      answer := json_build_object('kind', 'acquired', 'by', 'first', 'attempt', 1);
      is_new := false;
      return next;
      continue;
    end if;
    moment := clock_timestamp();
    remaining_ms := ceil(extract(epoch from held.ends_at - moment) * 1000);
    if held.forget_at <= moment then
      update leases set fingerprint = claim.fingerprint, ends_at = moment + claim.lease,
        forget_at = moment + claim.lease + claim.keep, attempt = 1, state = 'p', parked = false, taken = 'first',
        owner = claim.owner, reason = null, result = null
      where event_id = claim.id;
      answer := json_build_object('kind', 'acquired', 'by', 'first', 'attempt', 1);
    elsif held.fingerprint & 255 <> 0 and held.fingerprint & 255 = claim.fingerprint & 255
      and held.fingerprint <> claim.fingerprint then
      answer := json_build_object('kind', 'conflict');
    elsif held.state = 'd' then
      answer := json_build_object('kind', 'duplicate', 'result', held.result::text);
    elsif held.state = 'x' then
      answer := json_build_object('kind', 'dead', 'reason', held.reason);
    elsif held.state = 'p' and held.owner = claim.owner then
      update leases set ends_at = greatest(held.ends_at, moment + claim.lease) where event_id = claim.id;
      answer := json_build_object('kind', 'acquired', 'by', held.taken, 'attempt', held.attempt);
    elsif remaining_ms > 0 then
      answer := json_build_object(
        'kind', case held.state when 'p' then 'in-progress' else 'not-due' end, 'remainingMs', remaining_ms);
    elsif held.attempt >= claim.most then
      update leases set state = 'x', reason = 'attempts-spent', forget_at = moment + claim.keep
      where event_id = claim.id;
      answer := json_build_object('kind', 'dead', 'reason', 'attempts-spent');
    else
      held.taken := case held.state when 'p' then 'takeover' else 'retry' end;
      update leases set fingerprint = claim.fingerprint, ends_at = moment + claim.lease,
        forget_at = moment + claim.lease + claim.keep, attempt = held.attempt + 1, state = 'p', taken = held.taken,
        owner = claim.owner
      where event_id = claim.id;
      answer := json_build_object('kind', 'acquired', 'by', held.taken, 'attempt', held.attempt + 1);
    end if;
    return next;
  end loop;
end
$$;
`
