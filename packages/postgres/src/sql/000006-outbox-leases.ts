export const outboxLeases: string = `
-- Relays with different destinations have buckets of their own: a relay took buckets of all destinations before, and what
-- it did not publish waited. Relays of an earlier version do nothing from here on, until their processes are replaced.
delete from :"schema".outbox_leases;
alter table :"schema".outbox_leases
  drop constraint outbox_leases_pkey,
  drop column destinations,
  add column destination text not null,
  add primary key (destination, bucket);
`
