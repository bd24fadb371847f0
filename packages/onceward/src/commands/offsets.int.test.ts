import { expect, test } from 'vitest'
import type { PartitionOffsets } from '../data/offsets.ts'
import { answer, cli } from '../fixtures/cli.ts'
import { operated } from '../fixtures/operated.ts'

test('offsets are shown, and set to where an operator wants them', async () => {
  await using at = await operated()
  expect(await cli(['offsets', 'show'], at)).toMatchObject({
    stderr: '',
    stdout: expect.stringContaining('no offsets'),
  })
  await at.pool.query(`
    insert into onceward.consumers (id, name, dedup_window_ms, fingerprint_rule) overriding system value values (77, 'clicks', 1, 0);
    insert into onceward.kafka_offsets (partition_id, consumer_id, topic, partition, topic_id, cluster_id, group_id, next_offset, open_offsets)
    values (gen_random_uuid(), 77, 'clicks', 0, 't', 'c', 'g', 120, '{3,4,100,110}'), (gen_random_uuid(), 77, 'clicks', 1, 't', 'c', 'g', 50, '{}');
    insert into onceward.processed_events (event_id, fingerprint, consumer_id, state)
    values ('00000000-0000-0000-0000-000000000003', 0, 77, 'w'), ('00000000-0000-0000-0000-000000000004', 0, 77, 'x');
    insert into onceward.failed_events (event_id, consumer_id, attempt, key)
    values ('00000000-0000-0000-0000-000000000003', 77, 1, 't/0/1/3'), ('00000000-0000-0000-0000-000000000004', 77, 1, 't/0/1/4')`)
  expect((await cli(['offsets', 'show'], at)).stdout).toMatch(
    /clicks +clicks +0 +120 +3,100-109 +g +c/,
  )
  const reset = ['offsets', 'reset', '--consumer', 'clicks', '--topic', 'clicks', '--to']
  expect(
    await answer(['offsets', 'reset', ...reset.slice(2), '7', '--partition', '0'], at),
  ).toEqual({
    ...{ partitions: [0], to: 7 },
  })
  const { partitions } = await answer<{ readonly partitions: readonly PartitionOffsets[] }>(
    ['offsets', 'show', '--consumer', 'clicks'],
    at,
  )
  expect(partitions).toMatchObject([
    { partition: 0, nextOffset: 7, open: [], epoch: 2, generation: 2, cluster: '', group: '' },
    { partition: 1, nextOffset: 50, epoch: 1, generation: 1, cluster: 'c' },
  ])
  // A waiting record would never run. A dead one stays on record.
  const { rows } = await at.pool.query('select state::text from onceward.processed_events')
  expect(rows).toEqual([{ state: 'x' }])
  expect((await cli([...reset.slice(0, 5), 'none', '--to', '7'], at)).code).toBe(1)
})
