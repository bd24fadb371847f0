import type { RedisLike } from '@onceward/redis'
import { Redis } from 'ioredis'
import { Redis as Valkey } from 'iovalkey'
import { createClient, createClientPool, RESP_TYPES } from 'redis'
import type { RedisSettings } from './redis-settings.ts'

/** Who connects, and where. */
export interface Login {
  readonly port: number
  readonly username?: string
  readonly password?: string
}

export interface Connected {
  readonly client: RedisLike
  end(): void
}

/** Longer than any command of a cell takes. */
const COMMAND_MS = 30_000
const RECONNECT_MS = 50

export async function clientOf(settings: RedisSettings, login: Login): Promise<Connected> {
  switch (settings.client) {
    case 'ioredis':
      return ioredis(settings, login)
    case 'iovalkey':
      return iovalkey(settings, login)
    default:
      return nodeRedis(settings, login)
  }
}

function optionsOf(settings: RedisSettings, login: Login) {
  const { option, protocol, keyPrefix, db, hasOtherTypes, rights } = settings
  return {
    ...login,
    ...{ db, stringNumbers: hasOtherTypes },
    ...(protocol === undefined ? {} : { protocol }),
    ...(keyPrefix === undefined ? {} : { keyPrefix }),
    retryStrategy: () => RECONNECT_MS,
    ...(option === 'no offline queue' ? { enableOfflineQueue: false } : {}),
    ...(option === 'retries for ever' ? { maxRetriesPerRequest: null } : {}),
    ...(option === 'never retries' ? { maxRetriesPerRequest: 0 } : {}),
    ...(option === 'commandTimeout' ? { commandTimeout: COMMAND_MS } : {}),
    ...(option === 'no resending' ? { autoResendUnfulfilledCommands: false } : {}),
    enableAutoPipelining: option === 'autoPipelining',
    lazyConnect: option === 'connects late',
    // Without the right to read INFO the check prints a warning.
    enableReadyCheck: option !== 'no ready check' && rights === undefined,
  }
}

async function ioredis(settings: RedisSettings, login: Login): Promise<Connected> {
  const client = new Redis(optionsOf(settings, login))
  client.on('error', () => undefined)
  if (settings.option === 'subscriber') await client.subscribe('news').catch(() => undefined)
  return { client, end: () => client.disconnect() }
}

async function iovalkey(settings: RedisSettings, login: Login): Promise<Connected> {
  const { protocol: _, ...options } = optionsOf(settings, login)
  const client = new Valkey(options)
  client.on('error', () => undefined)
  if (settings.option === 'subscriber') await client.subscribe('news').catch(() => undefined)
  return { client, end: () => client.disconnect() }
}

async function nodeRedis(settings: RedisSettings, login: Login): Promise<Connected> {
  const { option, protocol, keyPrefix, db, hasOtherTypes } = settings
  const { port, ...user } = login
  const typeMapping = {
    [RESP_TYPES.BLOB_STRING]: Buffer,
    [RESP_TYPES.SIMPLE_STRING]: Buffer,
    [RESP_TYPES.NUMBER]: String,
  }
  const options = {
    socket: { host: '127.0.0.1', port, reconnectStrategy: () => RECONNECT_MS },
    database: db,
    ...user,
    ...(protocol === undefined ? {} : { RESP: protocol }),
    ...(keyPrefix === undefined ? {} : { keyPrefix }),
    ...(option === 'no offline queue' ? { disableOfflineQueue: true } : {}),
    ...(option === 'queue of one' ? { commandsQueueMaxLength: 1 } : {}),
    commandOptions: {
      ...(option === 'commandTimeout' ? { timeout: COMMAND_MS } : {}),
      ...(hasOtherTypes ? { typeMapping } : {}),
    },
  }
  if (settings.client === 'node-redis pool') {
    const pool = createClientPool(options)
    pool.on('error', () => undefined)
    pool.connect().catch(() => undefined)
    return { client: pool as RedisLike, end: () => pool.destroy() }
  }
  const client = createClient(options)
  client.on('error', () => undefined)
  if (option !== 'never connects') client.connect().catch(() => undefined)
  if (option === 'subscriber')
    await client.subscribe('news', () => undefined).catch(() => undefined)
  return {
    client: client as RedisLike,
    end: () => {
      if (client.isOpen) client.destroy()
    },
  }
}
