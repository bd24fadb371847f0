export const outboxLeases: string = `
-- Relays with different destinations have buckets of their own: a relay took buckets of all destinations before, and what
-- it did not publish waited. Relays of an earlier version do nothing from here on, until their processes are replaced.
delete from :"schema".outbox_leases;
alter table :"schema".outbox_leases
  drop constraint outbox_leases_pkey,
  drop column destinations,
  add column destination text not null,
  add primary key (destination, bucket);

-- What is due is found although much of other destinations is due.
drop index :"schema".outbox_messages_due;
create index outbox_messages_due on :"schema".outbox_messages (bucket, destination, due_at) where state in ('d', 'w');
`
