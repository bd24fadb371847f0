import type { Choice } from './grid.ts'

export interface RedisSettings {
  /** Without an inbox: only Redis decides. */
  readonly isAlone: boolean
  /** As in redis.conf. */
  readonly server: Readonly<Record<string, string>>
  readonly condition: 'normal' | 'filled' | 'snapshot-fails' | 'replica' | 'stale-replica' | 'down'
  /** A command that the server does not have. */
  readonly renamed: string | undefined
  /** Rights of the user in the words of `ACL SETUSER`. */
  readonly rights: string | undefined
  readonly password: 'right' | 'none' | 'wrong'
  readonly client: 'ioredis' | 'iovalkey' | 'node-redis' | 'node-redis pool'
  readonly protocol: 2 | 3 | undefined
  /** Numbers are answered as strings, and by node-redis strings as buffers. */
  readonly hasOtherTypes: boolean
  readonly keyPrefix: string | undefined
  readonly db: number
  readonly option: ClientOption | undefined
  readonly namespace: string
  readonly rememberDoneMs: number | undefined
  readonly transaction: 'each' | 'batch'
  /** The server ends all connections before the restart of the consumer. */
  readonly endsConnections: boolean
  /** The guard can use Redis. Beside an inbox everything works without it too. */
  readonly isUsed: boolean
}

export type ClientOption =
  | 'no offline queue'
  | 'connects late'
  | 'never connects'
  | 'retries for ever'
  | 'never retries'
  | 'commandTimeout'
  | 'autoPipelining'
  | 'no resending'
  | 'no ready check'
  | 'subscriber'
  | 'queue of one'

/** The name of a snapshot that cannot be written. */
export const BLOCKED = 'blocked.rdb'

/** The server cannot be used for now: alone the guard waits, and beside an inbox it works without Redis. */
export const outage = (
  isAlone: boolean,
  words: string,
): Pick<Choice<RedisSettings>, 'waits' | 'bypassed'> =>
  isAlone ? { waits: words } : { bypassed: words }

/** The guard cannot read what it would warn of. */
export const isUnread = ({ condition, password, rights, renamed }: RedisSettings): boolean =>
  condition === 'down' ||
  password !== 'right' ||
  renamed === 'INFO' ||
  rights?.includes('-info') === true
