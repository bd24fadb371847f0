import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createGuard, type Guard, type LeaseStore } from '@onceward/core'
import { eventIdOf, type Runtime } from '@onceward/core/ports'
import { type RedisLeases, redisLeases } from '@onceward/redis'
import { type RedisConnection, redis, type Server, until } from '@onceward/testing'
import { Redis } from 'ioredis'
import type { Pool } from 'pg'
import { LocalQueue } from './local-queue.ts'
import { COMMON, freshName } from './postgres-scenario.ts'
import { clientOf, type Login } from './redis-clients.ts'
import { BLOCKED, type RedisSettings } from './redis-settings.ts'
import type { Order, Scenario } from './scenario.ts'
import type { Servers } from './servers.ts'
import { SharedDatabase, type SharedGuard } from './shared-database.ts'
import { DEAD_IDS } from './story.ts'

const PASSWORD = 'secret'
/** The default beside an inbox is 20 ms. A slow machine would hide whether Redis is used at all. */
const BUDGET_MS = 10_000
/** How many times as long as usual the self-test may take: on a slow machine the guard would start without it. */
const PATIENCE = 15
const FILLER = Array.from({ length: 100 }, () => 'x'.repeat(1_000))

export async function openRedis(servers: Servers, settings: RedisSettings): Promise<Scenario> {
  const shared = await SharedDatabase.of(servers)
  const consumer = freshName()
  await using started = new AsyncDisposableStack()
  const { server, operator } = await startServer(settings, started)
  const login = await loginOf(settings, { server, operator })
  if (settings.condition === 'down') await server.kill()
  const connected = await clientOf(settings, login)
  started.defer(() => connected.end())
  const namespace = `${consumer}${settings.namespace}`
  const { rememberDoneMs } = settings
  const leases = redisLeases(connected.client, { namespace, budgetMs: BUDGET_MS, rememberDoneMs })
  const queue = new LocalQueue()
  const parts = started.move()
  return {
    consumer,
    operator: shared.pool,
    schema: 'onceward',
    createGuard: (handle, logger) => {
      const patient = settings.condition === 'down' ? leases : patientLeases(leases)
      const guard = { consumer, leases: patient, handle, logger }
      if (settings.isAlone) return leasesAlone(shared.pool, guard)
      return shared.createGuard({ ...guard, transaction: settings.transaction })
    },
    consume: (guard) => queue.consume(guard),
    send: async (orders) => queue.send(orders),
    redeliver: async () => {
      if (settings.endsConnections) await operator.call('CLIENT', 'KILL', 'TYPE', 'normal')
    },
    replay: settings.isAlone ? () => replayAll(leases, consumer) : undefined,
    depth: async () => queue.depth,
    published: async () => queue.published.splice(0),
    faults: async () => {
      if (!settings.isUsed || (await hasKeys(operator, settings, namespace))) return []
      return ['Redis was not used']
    },
    close: () => parts.disposeAsync(),
  }
}

/** The same leases with longer limits of time. */
const patientLeases = (leases: RedisLeases): LeaseStore => ({
  ...leases,
  open: async (registration) => {
    const { runtime } = registration
    const setTimer: Runtime['setTimer'] = (callback, delayMs, options) =>
      runtime.setTimer(callback, delayMs * PATIENCE, options)
    const session = await leases.open?.({ ...registration, runtime: { ...runtime, setTimer } })
    if (session === undefined) throw new Error('redisLeases() has no open().')
    return session
  },
})

/** Tried again, because the server may have ended the connection. */
async function replayAll(leases: RedisLeases, consumer: string): Promise<void> {
  const ids = DEAD_IDS.map((id) => eventIdOf(consumer, '', id))
  await until(async () => (await leases.replay(ids)).length > 0)
}

/** A guard whose handler has a transaction of its own. */
function leasesAlone(pool: Pool, { consumer, leases, handle, logger }: Alone): Guard {
  return createGuard(
    { ...COMMON, ...{ consumer, leases, logger, concurrency: 4, onTakeover: 'retry' as const } },
    async ({ payload, key, attempt }) => {
      const client = await pool.connect()
      let failure: Error | undefined
      const onError = (error: Error): void => {
        failure = error
      }
      client.on('error', onError)
      try {
        await client.query('begin')
        const { deed } = payload as Order
        await handle({ id: key, deed, attempt }, (text, values = []) =>
          client.query(text, [...values]),
        )
        await client.query('commit')
      } catch (error) {
        failure ??= error as Error
        throw error
      } finally {
        client.off('error', onError)
        // A connection in a transaction that failed is not returned.
        client.release(failure)
      }
    },
  )
}

interface Alone extends Pick<SharedGuard, 'consumer' | 'handle' | 'logger'> {
  readonly leases: LeaseStore
}

interface Started {
  readonly server: Server<RedisConnection>
  /** Past everything that the cell configures. */
  readonly operator: Redis
}

async function startServer(
  settings: RedisSettings,
  started: AsyncDisposableStack,
): Promise<Started> {
  const { renamed, condition } = settings
  const include = renamed === undefined ? {} : await renaming(renamed, started)
  const replica = condition === 'replica' ? { replicaof: await primary(started) } : {}
  const server = await redis({
    native: true,
    settings: { ...settings.server, ...include, ...replica },
  })
  // A server that cannot write its snapshot does not end when it is asked to.
  started.defer(() => server.stop())
  started.defer(() => server.kill())
  const operator = new Redis(server.connection.port, {
    ...{ db: settings.db, enableReadyCheck: false, retryStrategy: () => 50 },
  })
  operator.on('error', () => undefined)
  started.defer(() => operator.disconnect())
  await prepare(operator, settings)
  return { server, operator }
}

/** `rename-command` is two words, so it cannot be given on a command line. */
async function renaming(
  command: string,
  started: AsyncDisposableStack,
): Promise<{ readonly include: string }> {
  const directory = await mkdtemp(join(tmpdir(), 'onceward-redis-'))
  started.defer(() => rm(directory, { recursive: true }))
  const include = join(directory, 'renamed.conf')
  await writeFile(include, `rename-command ${command} ""\n`)
  return { include }
}

/** The address of a server that replicates at once. */
async function primary(started: AsyncDisposableStack): Promise<string> {
  const server = await redis({ native: true, settings: { 'repl-diskless-sync-delay': '0' } })
  started.defer(() => server.stop())
  return `127.0.0.1 ${server.connection.port}`
}

async function prepare(operator: Redis, { condition }: RedisSettings): Promise<void> {
  switch (condition) {
    case 'normal':
    case 'down':
      return
    case 'filled':
      // The server evicts keys once there are fewer of them than were set.
      for (let set = 0; set === (await operator.dbsize()); set += FILLER.length) {
        await operator.mset(FILLER.flatMap((text, index) => [`filler:${set + index}`, text]))
      }
      return
    case 'snapshot-fails': {
      const [, directory = ''] = (await operator.config('GET', 'dir')) as string[]
      await mkdir(join(directory, BLOCKED))
      await operator.bgsave()
      await until(async () => (await operator.info('persistence')).includes('status:err'))
      return
    }
    case 'stale-replica':
      await operator.config('SET', 'replica-serve-stale-data', 'no')
      await operator.replicaof('127.0.0.1', 1)
      return
    case 'replica':
      await until(async () => (await operator.info('replication')).includes('link_status:up'))
      return
  }
}

/** Makes the user of the cell, where it is not the default one. */
async function loginOf(
  { rights, password }: RedisSettings,
  { server, operator }: Started,
): Promise<Login> {
  const { port } = server.connection
  if (rights !== undefined) {
    await operator.call('ACL', 'SETUSER', 'worker', 'on', `>${PASSWORD}`, ...rights.split(' '))
    return { port, username: 'worker', password: PASSWORD }
  }
  if (password === 'right') return { port }
  await operator.call('ACL', 'SETUSER', 'default', 'resetpass', `>${PASSWORD}`)
  return password === 'none' ? { port } : { port, password: 'another' }
}

/** Whether the guard has left done marks, or alone the entries of events. */
async function hasKeys(
  operator: Redis,
  { isAlone, keyPrefix = '' }: RedisSettings,
  namespace: string,
): Promise<boolean> {
  const kind = isAlone ? 'e' : 'm'
  const keys = await operator.keys('*')
  return keys.some(
    (key) => key.startsWith(`${keyPrefix}{o:${namespace}`) && key.includes(`}${kind}`),
  )
}
