import type { Choice, Dimension } from './grid.ts'
import { BLOCKED, isUnread, outage, type RedisSettings } from './redis-settings.ts'

type Of = Choice<RedisSettings>

export function serverDimensions(isAlone: boolean): readonly Dimension<RedisSettings>[] {
  const evicts = isAlone ? 'it may evict them' : undefined
  const policy = (name: string, warned: string | undefined): Of => ({
    name,
    set: { server: { 'maxmemory-policy': name } },
    ...(warned === undefined ? {} : { warned, unwarned: isUnread }),
  })
  const loses = isAlone ? { warned: 'it loses them at a restart', unwarned: isUnread } : {}
  const broken = (name: string, set: Partial<RedisSettings>, words: string): Of => ({
    name,
    set: { ...set, isUsed: false },
    ...outage(isAlone, words),
  })
  return [
    {
      name: '`maxmemory-policy`',
      choices: [
        { name: 'noeviction' },
        broken('noeviction, at its limit', { server: { maxmemory: '100kb' } }, 'it is full'),
        ...['allkeys-lru', 'allkeys-lfu', 'allkeys-random'].map((name) =>
          policy(name, evicts ?? 'may evict live claims'),
        ),
        ...['volatile-lru', 'volatile-lfu', 'volatile-random', 'volatile-ttl'].map((name) =>
          policy(name, evicts),
        ),
        // Alone, an event whose entry is evicted runs again. The warning says so.
        ...(isAlone ? [] : [evicting()]),
      ],
    },
    {
      name: 'persistence',
      choices: [
        { name: '`appendonly yes`' },
        { name: '`appendonly no`', set: { server: { appendonly: 'no' } }, ...loses },
        {
          name: 'snapshots only',
          set: { server: { appendonly: 'no', save: '3600 1' } },
          ...loses,
        },
        broken(
          'snapshots that fail',
          { condition: 'snapshot-fails', server: { save: '3600 1', dbfilename: BLOCKED } },
          'it cannot write its snapshot',
        ),
      ],
    },
    {
      name: 'server',
      choices: [
        { name: 'primary' },
        broken('read-only replica', { condition: 'replica' }, 'it is a replica'),
        broken(
          'replica without its primary, `replica-serve-stale-data no`',
          { condition: 'stale-replica' },
          'its primary is down',
        ),
        broken(
          'fewer replicas than `min-replicas-to-write`',
          { server: { 'min-replicas-to-write': '1' } },
          'fewer replicas',
        ),
        broken('down', { condition: 'down' }, 'Redis'),
      ],
    },
    {
      name: 'connections',
      choices: [
        { name: 'stay' },
        // While the client connects again, an inbox decides alone, on a slow machine for all events.
        { name: '`timeout 1`', set: { server: { timeout: '1' }, isUsed: false } },
        { name: 'ended by the server', set: { endsConnections: true, isUsed: false } },
      ],
    },
    {
      name: 'encoding of hashes',
      choices: [
        { name: 'default' },
        {
          name: '`hash-max-listpack-entries 0`',
          set: { server: { 'hash-max-listpack-entries': '0' } },
        },
      ],
    },
  ]
}

const evicting = (): Of => ({
  name: 'allkeys-random, at its limit',
  set: {
    server: { 'maxmemory-policy': 'allkeys-random', maxmemory: '8mb' },
    ...{ condition: 'filled', isUsed: false },
  },
  warned: 'may evict live claims',
  unwarned: isUnread,
})
