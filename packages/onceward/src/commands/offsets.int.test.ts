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
  const reset = ['offsets', 'reset', '--consumer', 'clicks', '--topic', 'clicks']
  expect(await answer([...reset, '--to', '7', '--partition', '0'], at)).toEqual({
    ...{ partitions: [0], to: 7 },
    before: [{ partition: 0, nextOffset: 120, open: [3, 4, 100, 110] }],
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
  const none = ['offsets', 'reset', '--consumer', 'clicks', '--topic', 'none']
  expect((await cli([...none, '--to', '7', '--partition', '0'], at)).code).toBe(1)
})

// Red when a command without a partition sets all of them: their offsets mean other records.
test('a reset says which partitions, what will run again and what will be skipped', async () => {
  await using at = await operated()
  await at.pool.query(`
    insert into onceward.consumers (id, name, dedup_window_ms, fingerprint_rule) overriding system value values (77, 'clicks', 1, 0);
    insert into onceward.kafka_offsets (partition_id, consumer_id, topic, partition, topic_id, cluster_id, group_id, next_offset, open_offsets)
    values (gen_random_uuid(), 77, 'clicks', 0, 't', 'c', 'g', 1120, '{3,4,55,70}'), (gen_random_uuid(), 77, 'clicks', 1, 't', 'c', 'g', 50, '{}')`)
  const reset = ['offsets', 'reset', '--consumer', 'clicks', '--topic', 'clicks', '--to', '60']
  const refused = [reset, [...reset, '--all', '--partition', '0'], [...reset, '--all']]
  for (const args of refused) {
    expect(await cli(args, at)).toMatchObject({ code: 2, stdout: '' })
  }
  const { rows } = await at.pool.query('select generation from onceward.kafka_offsets')
  expect(rows).toEqual([{ generation: 1 }, { generation: 1 }])
  const { stderr } = await cli([...reset, '--all'], at)
  const { stdout } = await cli([...reset, '--all', '--yes'], at)
  for (const text of [stderr, stdout]) {
    expect(text).toContain(
      'Partition 0: records 60 to 1119 (1,060) will run again; of 3,55-59, those that have not ended will be skipped.\n' +
        'Partition 1: records 50 to 59 (10) will be skipped.',
    )
  }
  const again = await cli([...reset, '--partition', '1'], at)
  expect(again.stdout).toContain('Partition 1: no record will run again or be skipped.')
})
