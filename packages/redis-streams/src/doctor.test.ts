import { handMadeGuard } from '@onceward/testing/adapter'
import { describe, expect, test } from 'vitest'
import type { StreamFacts } from './client.ts'
import { examine, serverFindings, streamFindings } from './doctor.ts'
import { resolveSettings } from './options.ts'

const made = handMadeGuard()
const guard = made.port.settings
const settings = resolveSettings({ stream: 'orders' }, guard)
const NOW_MS = 1_700_000_000_000

const INFO = {
  redis_version: '7.0.15',
  aof_enabled: '1',
  maxmemory: '0',
  maxmemory_policy: 'noeviction',
}
const server = (info: object, fsync?: string) =>
  serverFindings({ info: new Map(Object.entries({ ...INFO, ...info })), fsync })

describe('the server', () => {
  test('that keeps its data is not warned of', () => {
    expect(server({}, 'everysec')).toEqual({ problems: [], warnings: [] })
    expect(server({ maxmemory_policy: 'allkeys-lru' })).toEqual({ problems: [], warnings: [] })
  })

  test.each<[string, object, string | undefined, RegExp]>([
    [
      'memory alone',
      { aof_enabled: '0', connected_slaves: '2' },
      undefined,
      /has 2 replica\(s\).*Set appendonly yes/,
    ],
    ['no sync', {}, 'no', /appendfsync no.*Set appendfsync everysec/],
    [
      'eviction',
      { maxmemory: '5', maxmemory_policy: 'allkeys-lfu' },
      undefined,
      /evict the whole stream.*noeviction/,
    ],
  ])('with %s is warned of, with what to set', (_, info, fsync, warning) => {
    expect(server(info, fsync).warnings).toEqual([expect.stringMatching(warning)])
  })

  test('that is older than 7.0 is refused, and one that tells nothing warned of', () => {
    expect(server({ redis_version: '6.2.14' }).problems).toEqual([
      expect.stringMatching(/^Expected Redis 7.0/),
    ])
    const { warnings } = serverFindings({ info: undefined, fsync: undefined })
    expect(warnings).toEqual([expect.stringContaining('+info')])
  })
})

interface Told {
  readonly stream?: object
  readonly own?: object | false
  readonly others?: readonly string[]
  readonly oldest?: string
}

function factsOf({
  stream = {},
  own = {},
  others = [],
  oldest,
}: Told): Omit<StreamFacts, 'info' | 'fsync'> {
  const about = { length: 2, 'entries-added': 5, 'first-entry': ['1700000000000-0', []], ...stream }
  const groups = [
    ...(own === false ? [] : [{ name: 'billing', 'entries-read': 3, lag: 2, ...own }]),
    ...others.map((name) => ({ name })),
  ]
  return {
    stream: new Map(Object.entries(about)),
    groups: groups.map((each) => new Map(Object.entries(each))),
    oldestPending: oldest,
  }
}

const found = (told: Told, keepEntries?: boolean, hadGroup = false) =>
  streamFindings('orders', factsOf(told), {
    ...{ guard, hadGroup, nowMs: NOW_MS },
    settings: resolveSettings({ stream: 'orders', keepEntries }, guard),
  })

describe('a stream', () => {
  test('of which nothing was lost is not warned of, also if the server does not know its lag', () => {
    expect(found({})).toEqual({ problems: [], warnings: [] })
    expect(found({ own: { 'entries-read': null, lag: null } })).toEqual({
      problems: [],
      warnings: [],
    })
    expect(found({ oldest: '1700000000000-0' })).toEqual({ problems: [], warnings: [] })
  })

  test('with another group needs `keepEntries`', () => {
    expect(found({ others: ['audit'] }).problems).toEqual([
      expect.stringMatching(/\(audit\).*keepEntries: true/),
    ])
    expect(found({ others: ['audit'] }, true).problems).toEqual([])
  })

  // Red when it is not: whoever reads the stream by XREAD would lose what the consumer settles.
  test('with entries and without the group needs a word on `keepEntries`, unless the group was there', () => {
    const told = { own: false } as const
    expect(found(told).problems).toEqual([
      expect.stringMatching(/has entries and no group billing.*`keepEntries: false` if nobody/),
    ])
    expect(found(told, false).problems).toEqual([])
    expect(found(told, true).problems).toEqual([])
    expect(found(told, undefined, true).problems).toEqual([])
    expect(found({ ...told, stream: { 'first-entry': null } }).problems).toEqual([])
  })

  test('that keeps entries which the guard has forgotten gets no group at its first entry', () => {
    const told: Told = { own: false, stream: { 'first-entry': ['5-0', []] } }
    expect(found(told, true, true).problems).toEqual([
      expect.stringMatching(/events again that were forgotten.*XGROUP CREATE orders billing <id>/),
    ])
    expect(found(told, false, true).problems).toEqual([])
  })

  test.each<[string, Told, RegExp]>([
    [
      'entries that were trimmed before they were delivered',
      { stream: { length: 0 } },
      /^2 entries of orders were trimmed.*lag is unknown/,
    ],
    [
      'pending entries that are gone',
      { oldest: '1699999999999-9' },
      /^Pending entries of orders were deleted/,
    ],
    [
      'an entry that is pending for longer than the window',
      { stream: { 'first-entry': ['5-0', []] }, oldest: '5-1' },
      /`dedupWindowMs`/,
    ],
    ['no group', { own: false, stream: { 'first-entry': null } }, /has no group billing/],
  ])('with %s is warned of', (_, told, warning) => {
    expect(found(told).warnings).toEqual([expect.stringMatching(warning)])
  })
})

test("a key of another type is refused with its name, and other errors are the client's", async () => {
  const { logger } = made.port
  const examined = (error: Error) =>
    examine({
      api: { facts: () => Promise.reject(error) },
      settings,
      guard,
      logger,
      nowMs: NOW_MS,
      hadGroup: false,
    })
  await expect(examined(new Error('WRONGTYPE no'))).rejects.toMatchObject({
    code: 'ONCEWARD_CONFIGURATION',
  })
  const lost = new Error('Connection is closed.')
  await expect(examined(lost)).rejects.toBe(lost)
})
