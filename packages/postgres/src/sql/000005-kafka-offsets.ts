export const kafkaOffsets: string = `
-- The offset fence (design.md §14): one row for each partition of a consumer whose events are known by their offsets.
-- Its size does not grow with the events. Every write compares the epoch and the offset that it moves on from.
create table :"schema".kafka_offsets (
  partition_id uuid primary key,            -- of consumer, topic and partition
  consumer_id integer not null,
  next_offset bigint not null,              -- every record below it is done, except for the open ones
  open_offsets bigint[] not null default '{}', -- pairs: from the first offset to the one before the second; their rows of
                                            -- processed_events decide
  epoch bigint not null default 1,          -- raised by every claim, which ends the owner before
  generation integer not null default 1,    -- raised by every reset: other events than before
  partition integer not null,
  claimed_at timestamptz not null default now(),
  topic text not null,
  -- Empty after a reset: the next claim decides.
  topic_id text not null,                   -- another one: the topic was created again
  cluster_id text not null,
  group_id text not null                    -- escaped as in JSON strings
) with (fillfactor = 50);

create index kafka_offsets_consumer on :"schema".kafka_offsets (consumer_id);
`
