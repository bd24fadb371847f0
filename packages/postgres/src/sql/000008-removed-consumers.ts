export const removedConsumers: string = `
-- A consumer that an operator has removed, unless removed_at is older than seen_at: status, doctor and metrics leave it
-- out until a guard of it registers again. The row stays, and with it the id that its events have: sweeps go on by its
-- window, and copies stay duplicates.
alter table :"schema".consumers add column removed_at timestamptz;
`
