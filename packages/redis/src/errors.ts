import { ConfigurationError, OncewardError, StoreUnavailableError } from '@onceward/core'
import { isError, messageOf } from '@onceward/core/adapter'

/** The function whose call failed. */
export type RedisUser = 'redisLeases' | 'redisInbox' | 'approximateDedup'

/** The option that shortens what it keeps, and the rights that its scripts need. */
const USERS: Readonly<Record<RedisUser, { readonly shorten: string; readonly rights: string }>> = {
  redisLeases: {
    shorten: 'rememberDoneMs',
    rights:
      '`~{o:*` and `+evalsha +eval +script|load +time +exists +get +set +del +hget +hmget +hrandfield +hset +pexpire ' +
      '+pttl +info`',
  },
  redisInbox: {
    shorten: 'dedupWindowMs',
    rights:
      '`~{tag}*` for its `hashTag` (without one all keys, `~*`), ' +
      '`+evalsha +eval +script|load +time +get +set +del +pexpire +hget +hset +hsetnx +zadd +zrem +zrangebyscore +type ' +
      '+dump +zscore +xinfo +info +command`, and every command that your handlers collect',
  },
  approximateDedup: {
    shorten: 'windowMs',
    rights:
      '`~{o:*` and `+evalsha +eval +script|load +time +get +incr +getbit +setbit +sadd +sismember +pexpire`',
  },
}

/** Error codes of Redis and what to do about them. https://redis.io/docs/latest/develop/reference/protocol-spec/#simple-errors */
const REMEDIES: Readonly<Record<string, string | ((user: RedisUser) => string)>> = {
  OOM: (user) => `it is full: raise \`maxmemory\` or shorten \`${USERS[user].shorten}\``,
  READONLY: 'it is a replica: connect to the primary',
  LOADING: 'it is loading its data',
  MASTERDOWN: 'its primary is down',
  CLUSTERDOWN: 'its cluster is not complete',
  TRYAGAIN: 'its cluster is moving the slot of these keys',
  MOVED:
    'another node of its cluster has the key: use a client for clusters, such as `Cluster` of ioredis',
  MISCONF: 'it cannot write its snapshot',
  NOREPLICAS: 'it has fewer replicas than `min-replicas-to-write` demands',
  BUSY: 'a long-running script blocks it',
  NOAUTH: 'it requires a password: set `password` of its client, or the password in its URL',
  WRONGPASS:
    'the user or the password is wrong: correct them in the options or the URL of its client',
  NOPERM: (user) =>
    `the user may not run the scripts, or what is in them: grant ${USERS[user].rights}`,
  UNKNOWN:
    'it does not know a command that onceward or its client needs: take the `rename-command` of this command out of ' +
    'redis.conf, connect past the proxy, or for INFO give ioredis `enableReadyCheck: false`',
  WRONGTYPE: 'another program wrote a key under the namespace of onceward',
}

/** What the clients say about themselves, without a code. */
const OF_CLIENT: readonly (readonly [RegExp, (user: RedisUser) => string])[] = [
  [
    /^(Connection|The client) is closed/,
    (user) =>
      `its client was closed, or was never connected: give \`${user}()\` a client that stays connected`,
  ],
  [
    /monitoring mode|interact with the keyspace|subscriber mode|only \(P\|S\)SUBSCRIBE/,
    (user) => `its client subscribes or monitors: give \`${user}()\` a client of its own`,
  ],
]

/** Only other settings end these, so waiting does not help. */
const SETTINGS: ReadonlySet<string> = new Set(['NOAUTH', 'NOPERM', 'UNKNOWN', 'WRONGPASS'])

/** Any error of the client or the server as a typed error, with the original as its cause. */
export function toStoreError(
  error: unknown,
  doing: string,
  user: RedisUser = 'redisLeases',
): OncewardError {
  if (OncewardError.is(error)) return error
  const message = messageOf(error)
  const remedy = remedyOf(message, user)
  // The texts of ioredis are sentences.
  const because = remedy === undefined ? message.replace(/\.$/, '') : `${remedy} (${message})`
  return new StoreUnavailableError(`Redis failed at ${doing}: ${because}.`, { cause: error })
}

function remedyOf(message: string, user: RedisUser): string | undefined {
  const remedy = REMEDIES[codeOf(message)] ?? OF_CLIENT.find(([text]) => text.test(message))?.[1]
  return typeof remedy === 'function' ? remedy(user) : remedy
}

/** The error of a start: a {@link ConfigurationError} if only other settings of the server end it. */
export function toStartError(error: unknown): unknown {
  if (!(error instanceof StoreUnavailableError)) return error
  if (!SETTINGS.has(codeOf(messageOf(error.cause)))) return error
  return new ConfigurationError(error.message, { cause: error.cause })
}

/**
 * Whether a cluster refused a script because its keys are on several nodes at the moment. The script did not run.
 *
 * After TRYAGAIN ioredis asks any node until it gives up. It then quotes the last answer, which is as often ASK or MOVED.
 */
export function needsOneNode(error: unknown): boolean {
  return (
    isError(error) && /\b(CROSSSLOT|TRYAGAIN)\b|^Too many Cluster redirections/.test(error.message)
  )
}

/** Redis 7.0, and then Redis from 7.2 and Valkey, name no code when a command inside a script is denied. */
const SCRIPT_DENIED = /The user executing the script|ACL failure in script/

/** Before Redis 7 errors inside scripts come as `ERR Error running script …: -OOM …`. */
function codeOf(message: string): string {
  if (SCRIPT_DENIED.test(message)) return 'NOPERM'
  if (/unknown (redis )?command/i.test(message)) return 'UNKNOWN'
  // Before a client has logged in, a call with many arguments is refused by its length.
  if (message.includes('unauthenticated')) return 'NOAUTH'
  const code = /^([A-Z]+)\b/.exec(message)?.[1] ?? ''
  if (code !== 'ERR') return code
  return /-([A-Z]+)\b/.exec(message)?.[1] ?? code
}

/** Whether the server itself has answered with an error. A script that it refuses at its start or first write did nothing. */
export function isRefusal(error: unknown): boolean {
  const code = codeOf(messageOf(error))
  return code in REMEDIES || code === 'ERR' || code === 'NOSCRIPT'
}
