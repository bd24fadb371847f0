import type { Grid } from '../../fuzz/configurations/grid.ts'

export interface StreamsSettings {
  /** Settings of the server. */
  readonly server: Readonly<Record<string, string>>
  readonly deadLetter: 'stream' | 'table' | 'itself'
  readonly streams: number
  readonly keepEntries: boolean
  /** Another group reads the stream. */
  readonly hasOtherGroup: boolean
  readonly isOtherType: boolean
  /** The fields of an entry. */
  readonly form: 'payload' | 'single' | 'fields'
  readonly claimIdleMs: number | undefined
  readonly holdMs: number | undefined
  readonly transaction: 'each' | 'batch'
}

export const STREAMS: Grid<StreamsSettings> = {
  name: 'redis-streams',
  title: 'Redis Streams',
  base: {
    server: { appendfsync: 'everysec' },
    deadLetter: 'stream',
    streams: 1,
    keepEntries: false,
    hasOtherGroup: false,
    isOtherType: false,
    form: 'payload',
    claimIdleMs: 60_000,
    holdMs: undefined,
    transaction: 'each',
  },
  dimensions: [
    {
      name: 'persistence',
      choices: [
        { name: '`appendonly yes`, `appendfsync everysec`' },
        {
          name: '`appendonly no`',
          set: { server: { appendonly: 'no' } },
          warned: 'keeps the stream in memory alone',
        },
        {
          name: '`appendfsync no`',
          set: { server: { appendfsync: 'no' } },
          warned: '(appendfsync no)',
        },
        {
          name: '`maxmemory-policy allkeys-lru`',
          set: {
            server: { maxmemory: '100mb', 'maxmemory-policy': 'allkeys-lru' },
          },
          warned: 'may evict the whole stream',
        },
      ],
    },
    {
      name: '`stream`',
      choices: [
        { name: 'one' },
        { name: 'three', set: { streams: 3 } },
        { name: 'a key of another type', set: { isOtherType: true }, refused: 'WRONGTYPE' },
      ],
    },
    {
      name: '`keepEntries`',
      choices: [
        { name: 'no' },
        { name: 'yes, and another group', set: { keepEntries: true, hasOtherGroup: true } },
        {
          name: 'no, and another group',
          set: { hasOtherGroup: true },
          refused: 'has other groups',
        },
      ],
    },
    {
      name: 'fields',
      choices: [
        { name: '`payload`' },
        { name: 'a single one', set: { form: 'single' } },
        { name: 'one for each part', set: { form: 'fields' } },
      ],
    },
    {
      name: '`deadLetter`',
      choices: [
        { name: 'a stream' },
        { name: 'none', set: { deadLetter: 'table' } },
        {
          name: 'the stream itself',
          set: { deadLetter: 'itself' },
          refused: 'to be another stream',
        },
      ],
    },
    {
      name: '`claimIdleMs`',
      choices: [
        { name: '60 s' },
        { name: 'default', set: { claimIdleMs: undefined } },
        {
          name: '1 s',
          set: { claimIdleMs: 1_000 },
          warned: "shorter than the guard's lease",
        },
      ],
    },
    {
      name: '`holdMs`',
      choices: [{ name: 'default' }, { name: '0', set: { holdMs: 0 } }],
    },
    {
      name: '`transaction`',
      choices: [{ name: 'each' }, { name: 'batch', set: { transaction: 'batch' } }],
    },
  ],
}
