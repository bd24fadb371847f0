import type { EventId } from '@onceward/core/ports'
import { identityQuery } from '@onceward/postgres/operator'
import { type InspectedEvent, inspectEvent } from '@onceward/redis/operator'
import { Redis } from 'ioredis'
import { Failure, usage } from '../failure.ts'
import type { Database, Query } from './database.ts'

const CONNECT_MS = 5_000

/** Redis of the guards' leases, for one command. */
export interface RedisServer extends AsyncDisposable {
  readonly client: Redis
}

/** @throws {@link Failure} that names host and port, never the password. */
export async function openRedis(url: string): Promise<RedisServer> {
  if (!/^rediss?:\/\//.test(url) || !URL.canParse(url)) {
    throw usage('Expected --redis to be a URL such as redis://:password@host:6379/0.')
  }
  const client = new Redis(url, {
    ...{ lazyConnect: true, maxRetriesPerRequest: 0, connectTimeout: CONNECT_MS },
    commandTimeout: CONNECT_MS,
    retryStrategy: () => null,
  })
  let reason: unknown
  client.on('error', (error: unknown) => {
    reason = error
  })
  try {
    await client.connect()
    await client.ping()
  } catch (error) {
    client.disconnect()
    const cause = reason ?? error
    const text = cause instanceof Error ? cause.message || cause.name : String(cause)
    const { host } = new URL(url)
    throw new Failure(`No connection to Redis at ${host}: ${text}`, 3, { cause })
  }
  return {
    client,
    [Symbol.asyncDispose]: async () => client.disconnect(),
  }
}

/** What Redis knows of an event whose guard has an inbox. */
export async function readRedis(
  { client }: RedisServer,
  event: { readonly id: string; readonly identity: string; readonly dedupWindowMs: number },
  namespace: string | undefined,
): Promise<InspectedEvent> {
  const { id, identity, dedupWindowMs } = event
  return inspectEvent(client, id as EventId, { identity, dedupWindowMs, namespace })
}

/** The identity of the history of commits, under which Redis remembers; undefined if this login may not read it. */
export async function readIdentity(
  query: Query,
  { schema }: Pick<Database, 'schema'>,
): Promise<string | undefined> {
  const [right] = await query<{ readonly may: boolean }>(
    "select has_function_privilege('pg_control_system()', 'execute') as may",
  )
  if (right?.may !== true) return undefined
  return (await query<{ readonly answer: string }>(identityQuery(schema)))[0]?.answer
}
