import type { Choice, Dimension } from './grid.ts'
import { type ClientOption, outage, type RedisSettings } from './redis-settings.ts'

type Of = Choice<RedisSettings>

export function clientDimensions(isAlone: boolean): readonly Dimension<RedisSettings>[] {
  const option = (name: string, option: ClientOption): Of => ({ name, set: { option } })
  return [
    {
      name: 'client',
      choices: [
        { name: 'ioredis' },
        { name: 'iovalkey', set: { client: 'iovalkey' } },
        { name: 'node-redis', set: { client: 'node-redis' } },
        { name: 'pool of node-redis', set: { client: 'node-redis pool' } },
      ],
    },
    {
      name: 'protocol',
      choices: [
        { name: 'default of the client' },
        { name: 'RESP2', set: { protocol: 2 } },
        { name: 'RESP3', set: { protocol: 3 } },
      ],
    },
    {
      name: 'types of answers',
      choices: [
        { name: 'default' },
        { name: 'numbers as strings, strings as buffers', set: { hasOtherTypes: true } },
      ],
    },
    {
      name: '`keyPrefix`',
      choices: [
        { name: 'none' },
        { name: '`app:`', set: { keyPrefix: 'app:' } },
        { name: '`{app}:`', set: { keyPrefix: '{app}:' } },
      ],
    },
    { name: 'database', choices: [{ name: '0' }, { name: '3', set: { db: 3 } }] },
    {
      name: 'option of the client',
      choices: [
        { name: 'none' },
        option('no offline queue', 'no offline queue'),
        option('connects with its first command', 'connects late'),
        {
          ...option('`connect()` is never called (node-redis)', 'never connects'),
          set: { option: 'never connects', client: 'node-redis', isUsed: false },
          ...outage(isAlone, 'client is closed'),
        },
        option('`maxRetriesPerRequest: null` (ioredis)', 'retries for ever'),
        option('`maxRetriesPerRequest: 0` (ioredis)', 'never retries'),
        option('time limit of a command', 'commandTimeout'),
        option('`enableAutoPipelining` (ioredis)', 'autoPipelining'),
        option('`autoResendUnfulfilledCommands: false` (ioredis)', 'no resending'),
        option('`enableReadyCheck: false` (ioredis)', 'no ready check'),
        {
          name: 'a client that subscribes',
          set: { option: 'subscriber', protocol: 2, isUsed: false },
          ...outage(isAlone, 'subscriber mode'),
        },
        {
          name: '`commandsQueueMaxLength: 1` (node-redis)',
          set: { option: 'queue of one', client: 'node-redis', isUsed: false },
          ...outage(isAlone, 'queue is full'),
        },
      ],
    },
  ]
}
