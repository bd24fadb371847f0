import { randomUUID } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ConfigurationError, StoreUnavailableError } from '@onceward/core'
import { systemRuntime } from '@onceward/core/ports'
import { type RedisConnection, redis, type Server, until } from '@onceward/testing'
import { newClaim } from '@onceward/testing/conformance'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { IoredisLike } from './client.ts'
import { testHistory, testRegistration } from './fixtures/registration.ts'
import { redisLeases } from './index.ts'

let server: Server<RedisConnection>
let client: Redis

beforeAll(async () => {
  server = await redis({ native: true })
  client = new Redis(server.connection.port)
})
afterAll(async () => {
  client.disconnect()
  await server.stop()
})

/** A client of a user with these rights. */
async function asUser(username: string, rights: string): Promise<Redis> {
  await client.call('ACL', 'SETUSER', username, 'on', 'nopass', ...rights.split(' '))
  const { port } = server.connection
  return new Redis({ port, username, password: 'any', enableReadyCheck: false })
}

/** A client whose answers are not those of the server. */
const lying = (change: (answer: unknown) => unknown): IoredisLike => ({
  evalsha: async (...args) => change(await client.evalsha(...args)),
  script: (subcommand, source) => client.script(subcommand, source),
})
const isText = (answer: unknown): answer is readonly [readonly [number, string]] =>
  Array.isArray(answer) &&
  Array.isArray(answer[0]) &&
  String(answer[0][1]).includes('redis_version')

describe('the start of a guard', () => {
  it('acceptance A17: refuses a client with which two claims of one event win', async () => {
    const forgetful: IoredisLike = {
      evalsha: (sha, count, ...args) => {
        const keys = args.slice(0, count).map((key) => `${randomUUID()}${String(key)}`)
        return client.evalsha(sha, count, ...keys, ...args.slice(count))
      },
      script: (subcommand, source) => client.script(subcommand, source),
    }
    const opening = redisLeases(forgetful).open?.(testRegistration())
    await expect(opening).rejects.toThrow(ConfigurationError)
    await expect(opening).rejects.toThrow(/exactly one of two claims wins/)
  })

  it.each<[string, RegExp, (answer: unknown) => unknown]>([
    [
      'a server that is too old',
      /Expected Redis 6.2 or newer, got 6.0.16: update the server/,
      (answer) =>
        isText(answer)
          ? [[answer[0][0], answer[0][1].replace(/redis_version:.*/, 'redis_version:6.0.16')]]
          : answer,
    ],
    [
      'a server that deletes claims when their lease ends',
      /the key of a claim outlives its lease and expires \(PTTL 5\)/,
      (answer) => (isText(answer) ? [[5, answer[0][1]]] : answer),
    ],
    [
      'a server that never deletes claims',
      /the key of a claim outlives its lease and expires \(PTTL -1\)/,
      (answer) => (isText(answer) ? [[-1, answer[0][1]]] : answer),
    ],
    [
      'a server on which a takeover looks like a first claim',
      /a claim after the lease expired is a takeover/,
      (answer) => (String(answer) === 'acquired,takeover,2' ? [['acquired', 'first', 1]] : answer),
    ],
  ])('refuses %s', async (_what, message, change) => {
    const opening = redisLeases(lying(change)).open?.(testRegistration())
    await expect(opening).rejects.toThrow(ConfigurationError)
    await expect(opening).rejects.toThrow(message)
  })

  it('does not change the listeners, the settings or the connection of the client', async () => {
    const its = new Redis(server.connection.port)
    const seen = () => ({
      listeners: its.eventNames().map((name) => [name, its.listenerCount(name)]),
      options: { ...its.options },
      status: its.status,
    })
    await its.ping()
    const before = seen()
    const session = await redisLeases(its).open?.(testRegistration())
    const mine = newClaim()
    await session?.claim([mine])
    await session?.complete([mine], 86_400_000)
    expect(seen()).toEqual(before)
    its.disconnect()
  })

  it('without an inbox warns that Redis may lose data, and says how to change that', async () => {
    await using own = await redis({ native: true, settings: { appendonly: 'no' } })
    const its = new Redis(own.connection.port)
    await its.config('SET', 'maxmemory-policy', 'allkeys-lru')
    const registration = testRegistration()
    await redisLeases(its).open?.(registration)
    const remedies = registration.logged.map(({ fields }) => Reflect.get(fields, 'remedy'))
    expect(remedies).toEqual([
      'CONFIG SET maxmemory-policy noeviction',
      'CONFIG SET appendonly yes',
    ])
    its.disconnect()
  })

  it('without an inbox warns when INFO cannot be read', async () => {
    const its = await asUser('blind', '~* +@all -info')
    const registration = testRegistration()
    await redisLeases(its).open?.(registration)
    expect(registration.logged).toMatchObject([
      { level: 'warn', message: expect.stringMatching(/could not be read with INFO/) },
    ])
    its.disconnect()
  })

  // Red when the error names fewer rights than the scripts need, or does not know the error of a command in a script.
  it.each([
    ['without an inbox', {}],
    ['with an inbox', { identity: testHistory().identity }],
  ])('%s works with the rights that the error names', async (_what, over) => {
    const open = async (name: string, rights: string) => {
      const its = await asUser(name, rights)
      const opening = redisLeases(its).open?.(testRegistration(over))
      return Promise.resolve(opening).finally(() => its.disconnect())
    }
    const missing: unknown = await open('few', '~{o:* +evalsha +eval').catch(
      (error: unknown) => error,
    )
    expect(missing).toBeInstanceOf(ConfigurationError)
    const named = String(missing).match(/[~+][^ `]+/g) ?? []
    expect(named).toContain('+hset')
    expect(await open('enough', named.join(' '))).toBeDefined()
  })

  // Red when the self-test leaves out a command: the guard starts, and then nothing is remembered or released.
  it.each([
    'evalsha',
    'time',
    'get',
    'set',
    'del',
    'hget',
    'hmget',
    'hset',
    'hrandfield',
    'pexpire',
  ])('is refused by name if the user may not run %s', async (command) => {
    const its = await asUser(`no-${command}`, `~* +@all -${command}`)
    const { identity } = testHistory()
    const opening = redisLeases(its).open?.(testRegistration({ identity }))
    await expect(opening).rejects.toThrow(ConfigurationError)
    await expect(opening).rejects.toThrow(`+${command}`)
    its.disconnect()
  })

  it.each(['EVALSHA', 'TIME', 'HSET'])(
    'is refused by name if the server renamed %s',
    async (command) => {
      const directory = await mkdtemp(join(tmpdir(), 'onceward-redis-'))
      const include = join(directory, 'renamed.conf')
      await writeFile(include, `rename-command ${command} ""\n`)
      await using own = await redis({ native: true, settings: { include } })
      await rm(directory, { recursive: true })
      const its = new Redis(own.connection.port)
      const { identity } = testHistory()
      const opening = redisLeases(its).open?.(testRegistration({ identity }))
      await expect(opening).rejects.toThrow(ConfigurationError)
      await expect(opening).rejects.toThrow(/rename-command/)
      its.disconnect()
    },
  )

  it('without an inbox refuses to remember for less than the dedup window', async () => {
    const opening = redisLeases(client, { rememberDoneMs: 60_000 }).open?.(testRegistration())
    await expect(opening).rejects.toThrow(ConfigurationError)
    await expect(opening).rejects.toThrow(/`dedupWindowMs` \(86400000\)/)
  })

  it('with an inbox succeeds without Redis, and uses Redis once it answers', async () => {
    await using own = await redis({ native: true })
    await own.kill()
    const its = new Redis(own.connection.port, { retryStrategy: () => 20 })
    its.on('error', () => undefined)
    let waitedMs = 0
    const runtime = { ...systemRuntime, monotonic: () => systemRuntime.monotonic() + waitedMs }
    const { identity } = testHistory()
    const session = await redisLeases(its).open?.(testRegistration({ identity, runtime }))
    // Also when the pause after the failure is over, the error says why Redis is not used.
    for (waitedMs = 0; waitedMs <= 60_000; waitedMs += 60_000) {
      const claiming = session?.claim([newClaim()])
      await expect(claiming).rejects.toThrow(StoreUnavailableError)
      await expect(claiming).rejects.toMatchObject({ cause: expect.any(StoreUnavailableError) })
    }
    await own.restart()
    const answer = await until(async () => session?.claim([newClaim()]).catch(() => undefined))
    expect(answer).toEqual([{ kind: 'acquired', by: 'first', attempt: 1 }])
    its.disconnect()
  })

  // Red when only the start asks for the identity: Redis is not used until the process starts anew.
  it('with an inbox succeeds without the identity of PostgreSQL, and uses Redis once it is known', async () => {
    const its = new Redis(server.connection.port)
    let waitedMs = 0
    const runtime = { ...systemRuntime, monotonic: () => systemRuntime.monotonic() + waitedMs }
    const history = { isAway: true }
    const identity = async () => {
      if (history.isAway) throw new Error('Postgres is away')
      return 'first'
    }
    const registration = testRegistration({ identity, runtime })
    const session = await redisLeases(its, { namespace: randomUUID() }).open?.(registration)
    await expect(session?.claim([newClaim()])).rejects.toThrow(StoreUnavailableError)
    history.isAway = false
    waitedMs += 60_000
    const answer = await until(async () => session?.claim([newClaim()]).catch(() => undefined))
    expect(answer).toEqual([{ kind: 'acquired', by: 'first', attempt: 1 }])
    its.disconnect()
  })

  it('without an inbox waits for Redis', async () => {
    const its = new Redis(1, { retryStrategy: () => 20 })
    its.on('error', () => undefined)
    const opening = redisLeases(its).open?.(testRegistration())
    await expect(opening).rejects.toThrow(StoreUnavailableError)
    its.disconnect()
  })
})
