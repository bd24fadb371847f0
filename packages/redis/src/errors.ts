import { OncewardError, StoreUnavailableError } from '@onceward/core'

/** What Redis answers when it cannot work, and what to do. https://redis.io/docs/latest/develop/reference/protocol-spec/#simple-errors */
const REMEDIES: Readonly<Record<string, string>> = {
  OOM: 'it is full: raise `maxmemory` or shorten `rememberDoneMs`',
  READONLY: 'it is a replica: connect to the primary',
  LOADING: 'it is loading its data',
  MASTERDOWN: 'its primary is down',
  CLUSTERDOWN: 'its cluster is not complete',
  MISCONF: 'it cannot write its snapshot',
  NOREPLICAS: 'it misses replicas that `min-replicas-to-write` asks for',
  BUSY: 'a script of somebody holds it',
  NOAUTH: 'it wants a password',
  WRONGPASS: 'the password is wrong',
  NOPERM: 'the user may not run scripts: grant `+evalsha +eval +script|load` and `~{o:*`',
  WRONGTYPE: 'a key under our namespace is not ours',
}

/** Any error of the client or the server, typed, with the original as its cause. */
export function toStoreError(error: unknown, doing: string): OncewardError {
  if (OncewardError.is(error)) return error
  // Timeouts of node-redis have a name and no message.
  const message = error instanceof Error ? error.message || error.constructor.name : String(error)
  const remedy = REMEDIES[codeOf(message)]
  const because = remedy === undefined ? message : `${remedy} (${message})`
  return new StoreUnavailableError(`Redis failed at ${doing}: ${because}.`, { cause: error })
}

/** Several keys in one script, on a cluster: nothing was run. */
export function isCrossSlot(error: unknown): boolean {
  return error instanceof Error && codeOf(error.message) === 'CROSSSLOT'
}

/** Errors inside scripts come as `ERR Error running script …: -OOM …` before Redis 7. */
function codeOf(message: string): string {
  const code = /^([A-Z]+)\b/.exec(message)?.[1] ?? ''
  if (code !== 'ERR') return code
  return /-([A-Z]+)\b/.exec(message)?.[1] ?? code
}
