import type { Dimension, Grid } from './grid.ts'
import { clientDimensions } from './redis-client-dimensions.ts'
import { serverDimensions } from './redis-server-dimensions.ts'
import type { ClientOption, RedisSettings } from './redis-settings.ts'
import { rightsDimensions } from './redis-user-dimensions.ts'

/** Grids of a guard that uses Redis beside an inbox, and of one that has nothing else. */
const gridOf = (isAlone: boolean): Grid<RedisSettings> => ({
  name: isAlone ? 'redis-alone' : 'redis',
  title: isAlone ? 'Redis alone' : 'Redis beside an inbox',
  base: {
    isAlone,
    server: {},
    condition: 'normal',
    renamed: undefined,
    rights: undefined,
    password: 'right',
    client: 'ioredis',
    protocol: undefined,
    hasOtherTypes: false,
    keyPrefix: undefined,
    db: 0,
    option: undefined,
    namespace: '',
    rememberDoneMs: undefined,
    transaction: 'each',
    endsConnections: false,
    isUsed: true,
  },
  isImpossible,
  dimensions: [
    ...serverDimensions(isAlone),
    ...rightsDimensions(isAlone),
    ...clientDimensions(isAlone),
    ...optionDimensions(isAlone),
  ],
})

function isImpossible(settings: RedisSettings): boolean {
  const { client, protocol, option, rights, password, condition } = settings
  const isNode = client.startsWith('node-redis')
  const onlyIoredis: readonly (ClientOption | undefined)[] = [
    ...(['retries for ever', 'never retries', 'autoPipelining'] as const),
    ...(['no resending', 'no ready check'] as const),
  ]
  const onlyNode: readonly (ClientOption | undefined)[] = ['never connects', 'queue of one']
  return (
    (client === 'iovalkey' && protocol === 3) ||
    (isNode ? onlyIoredis.includes(option) : onlyNode.includes(option)) ||
    (client === 'node-redis pool' && option !== undefined) ||
    // A user that needs a password cannot have the wrong one and rights too, and no option matters before a login.
    (password !== 'right' && (rights !== undefined || option !== undefined)) ||
    (condition === 'down' && settings.endsConnections)
  )
}

function optionDimensions(isAlone: boolean): readonly Dimension<RedisSettings>[] {
  const beside: readonly Dimension<RedisSettings>[] = [
    {
      name: '`rememberDoneMs`',
      choices: [{ name: 'default' }, { name: '1000', set: { rememberDoneMs: 1_000 } }],
    },
    {
      name: '`transaction`',
      choices: [{ name: 'each' }, { name: 'batch', set: { transaction: 'batch' } }],
    },
  ]
  return [
    {
      name: '`namespace`',
      choices: [
        { name: 'short' },
        { name: '64 characters of every kind', set: { namespace: `Az09._:-${'x'.repeat(38)}` } },
      ],
    },
    ...(isAlone ? [] : beside),
  ]
}

export const REDIS: Grid<RedisSettings> = gridOf(false)
export const REDIS_ALONE: Grid<RedisSettings> = gridOf(true)
