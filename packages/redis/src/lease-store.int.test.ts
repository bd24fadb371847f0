import { randomUUID } from 'node:crypto'
import { StoreUnavailableError } from '@onceward/core'
import { type Fingerprint, systemRuntime } from '@onceward/core/ports'
import {
  proxy,
  type RedisConnection,
  redis,
  type Server,
  swallowReplyTo,
  until,
} from '@onceward/testing'
import { newClaim, newToken } from '@onceward/testing/conformance'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { IoredisLike } from './client.ts'
import { testHistory, testRegistration } from './fixtures/registration.ts'
import { redisLeases } from './index.ts'
import { keyOf, type Namespace } from './keys.ts'

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

const patient = { budgetMs: 30_000 }
const first = { kind: 'acquired', by: 'first', attempt: 1 }
const namespaceOf = (name: string): Namespace => ({ name, markMs: 0, bucketSecret: '', keepMs: 0 })

describe('a claim in Redis', () => {
  it('trap T32: expires by the clock of Redis, whatever the clocks of the workers say', async () => {
    const name = randomUUID()
    const ahead = testRegistration().runtime
    const runtime = { ...ahead, now: () => (ahead.now() + 300_000) as ReturnType<typeof ahead.now> }
    const leases = redisLeases(client, { ...patient, namespace: name })
    const session = await leases.open?.(testRegistration({ runtime }))
    const mine = newClaim({ leaseMs: 30_000 })
    expect(await session?.claim([mine])).toEqual([first])
    const [rival] = (await session?.claim([newClaim({ id: mine.id })])) ?? []
    expect(rival).toMatchObject({ kind: 'in-progress' })
    expect(rival?.kind === 'in-progress' && rival.remainingMs).toBeGreaterThan(20_000)
    await session?.renew([mine], 50)
    const taken = await until(async () => {
      const [answer] = await leases.claim([newClaim({ id: mine.id })])
      return answer?.kind === 'acquired' && answer
    })
    expect(taken).toEqual({ kind: 'acquired', by: 'takeover', attempt: 2 })
  })

  it('has a key with the id and no text of the user, which outlives the lease', async () => {
    const namespace = randomUUID()
    const claim = newClaim({ leaseMs: 10 })
    await redisLeases(client, { ...patient, namespace }).claim([claim])
    const key = keyOf(namespaceOf(namespace), claim.id)
    expect(key.subarray(-16).toString('hex')).toBe(claim.id.replaceAll('-', ''))
    expect(await client.pttl(key)).toBeGreaterThan(14 * 86_400_000)
  })

  it('works after the server lost the scripts', async () => {
    const leases = redisLeases(client, { ...patient, namespace: randomUUID() })
    const mine = newClaim()
    await leases.claim([mine])
    await client.script('FLUSH')
    expect(await leases.complete([mine], 60_000)).toEqual(['held'])
    await client.script('FLUSH')
    expect(await leases.claim([newClaim({ id: mine.id })])).toMatchObject([{ kind: 'duplicate' }])
  })

  it('works through a client that has script() and no eval()', async () => {
    const bare: IoredisLike = {
      evalsha: (sha, count, ...args) => client.evalsha(sha, count, ...args),
      script: (subcommand, source) => client.script(subcommand, source),
    }
    await client.script('FLUSH')
    const leases = redisLeases(bare, { ...patient, namespace: randomUUID() })
    expect(await leases.claim([newClaim()])).toEqual([first])
  })

  it('counts once if its reply was lost and the client sends it again', async () => {
    await using hurt = await proxy({ host: '127.0.0.1', port: server.connection.port })
    const resending = new Redis(hurt.port, { retryStrategy: () => 10 })
    resending.on('error', () => undefined)
    const leases = redisLeases(resending, { ...patient, namespace: randomUUID() })
    await leases.claim([newClaim()])
    hurt.onData = swallowReplyTo(/evalsha/i, 1)
    const mine = newClaim()
    expect(await leases.claim([mine])).toEqual([first])
    expect(await leases.complete([mine], 60_000)).toEqual(['held'])
    resending.disconnect()
  })

  it('compares all 64 bits of a fingerprint', async () => {
    const leases = redisLeases(client, { ...patient, namespace: randomUUID() })
    const [least, most] = [-(2n ** 63n) + 1n, 2n ** 63n - 255n] as Fingerprint[]
    const claim = newClaim({ fingerprint: least as Fingerprint })
    await leases.claim([claim])
    const rival = { ...claim, ownerToken: newToken() }
    expect(await leases.claim([rival])).toMatchObject([{ kind: 'in-progress' }])
    expect(await leases.claim([{ ...rival, fingerprint: most as Fingerprint }])).toEqual([
      { kind: 'conflict' },
    ])
  })
  it('refuses an id that is not a UUID', async () => {
    const leases = redisLeases(client, patient)
    const cut = leases.claim([newClaim({ id: 'order-1' as never })])
    await expect(cut).rejects.toThrow(/Expected an event id \(a UUID\), got `order-1`/)
  })
})

describe('a key of another program under our namespace', () => {
  const id = newClaim().id
  it.each([
    ['a key of another type', (key: Buffer) => client.rpush(key, 'theirs')],
    [
      'a value of another version',
      (key: Buffer) => client.set(key, '9p12345678170000000000 1 first 0 owner.'),
    ],
    ['a value cut short', (key: Buffer) => client.set(key, '1p12345678170000000000 1 fir')],
    ['a result cut short', (key: Buffer) => client.set(key, '1d1234567810 {"a":')],
    ['an empty value', (key: Buffer) => client.set(key, '')],
  ])('%s is reported and left as it is', async (_what, put) => {
    const namespace = randomUUID()
    const leases = redisLeases(client, { ...patient, namespace })
    const key = keyOf(namespaceOf(namespace), id)
    await put(key)
    const before = await client.dumpBuffer(key)
    const claim = newClaim({ id })
    expect(await leases.claim([newClaim(), claim, newClaim()])).toEqual([
      first,
      { kind: 'unknown' },
      first,
    ])
    const transitions = {
      renew: leases.renew([claim], 1_000),
      complete: leases.complete([claim], 1_000),
      fail: leases.fail([{ ...claim, delayMs: 0 }]),
      release: leases.release([claim]),
      bury: leases.bury([{ ...claim, reason: 'fatal' }], 1_000),
    }
    for (const [verb, answer] of Object.entries(transitions)) {
      expect(await answer, verb).toEqual(['lost'])
    }
    expect(await leases.replay([id])).toEqual([false])
    expect(await leases.forget([id])).toEqual([false])
    expect(await client.dumpBuffer(key)).toEqual(before)
  })

  // Red when the answers to the other events of the batch are lost with it.
  it('that holds a result that is no JSON concerns its own event only', async () => {
    const namespace = randomUUID()
    const leases = redisLeases(client, { ...patient, namespace })
    await client.set(keyOf(namespaceOf(namespace), id), '1d123456786 {oops}')
    expect(await leases.claim([newClaim(), newClaim({ id }), newClaim()])).toEqual([
      first,
      { kind: 'unknown' },
      first,
    ])
    expect(await leases.forget([id])).toEqual([true])
  })

  it('is logged once a minute, with one key and the number of keys', async () => {
    const namespace = randomUUID()
    let passedMs = 0
    const runtime = { ...systemRuntime, monotonic: () => systemRuntime.monotonic() + passedMs }
    const registration = testRegistration({ runtime })
    const session = await redisLeases(client, { ...patient, namespace }).open?.(registration)
    await client.set(keyOf(namespaceOf(namespace), id), 'theirs')
    const logged = () =>
      registration.logged.filter(({ message }) => /cannot read a key/.test(message))
    const claim = (): Promise<unknown> | undefined => session?.claim([newClaim({ id }), newClaim()])
    for (let turn = 0; turn < 3; turn += 1) await claim()
    passedMs = 60_000
    await claim()
    const bytes = id.replaceAll('-', '').replaceAll(/../g, (byte) => `\\x${byte}`)
    const key = `"{o:${namespace}:${id.slice(0, 2)}}e${bytes}"`
    expect(logged()).toMatchObject([
      { level: 'warn', fields: { consumer: 'billing', key, count: 1 } },
      { level: 'warn', fields: { consumer: 'billing', key, count: 3 } },
    ])
  })
})

describe('operators', () => {
  it('replay dead events, and forget known events', async () => {
    const leases = redisLeases(client, { ...patient, namespace: randomUUID() })
    const [dead, done, unknown] = [newClaim(), newClaim(), newClaim()]
    await leases.claim([dead, done])
    await leases.bury([{ ...dead, reason: 'fatal' }], 60_000)
    await leases.complete([done], 60_000)
    const ids = [dead.id, done.id, unknown.id]
    expect(await leases.replay(ids)).toEqual([true, false, false])
    const again = newClaim({ id: dead.id, maxAttempts: 1 })
    expect(await leases.claim([again])).toEqual([{ kind: 'acquired', by: 'retry', attempt: 1 }])
    // A replayed event that is released stays known, because no broker delivers it again.
    expect(await leases.release([again])).toEqual(['held'])
    expect(await leases.claim([again])).toMatchObject([{ by: 'retry', attempt: 1 }])
    expect(await leases.forget(ids)).toEqual([true, true, false])
    expect(await leases.claim([newClaim({ id: done.id })])).toEqual([first])
  })
})

describe('a Redis that fails', () => {
  it('rejects with a typed error that says what is wrong', async () => {
    await using own = await redis({ native: true, settings: { appendonly: 'no' } })
    const its = new Redis(own.connection.port)
    const leases = redisLeases(its, { budgetMs: 5_000 })
    await leases.claim([newClaim()])
    const claiming = (): Promise<unknown> => leases.claim([newClaim()])
    await its.config('SET', 'maxmemory', '1')
    await expect(claiming()).rejects.toThrow(/it is full: raise `maxmemory`/)
    await expect(claiming()).rejects.toThrow(StoreUnavailableError)
    await its.config('SET', 'maxmemory', '0')
    await its.replicaof('127.0.0.1', 1)
    await expect(claiming()).rejects.toThrow(/it is a replica: connect to the primary/)
    await its.replicaof('NO', 'ONE')
    await its.config('SET', 'requirepass', 'secret')
    its.disconnect()
    const stranger = new Redis(own.connection.port)
    stranger.on('error', () => undefined)
    await expect(redisLeases(stranger, { budgetMs: 5_000 }).claim([newClaim()])).rejects.toThrow(
      /it requires a password/,
    )
    stranger.disconnect()
  })

  it('costs no more than the budget, and a claim granted too late is released', async () => {
    await using own = await redis({ native: true })
    const its = new Redis(own.connection.port)
    const { identity } = testHistory()
    const namespace = randomUUID()
    const session = await redisLeases(its, { namespace }).open?.(testRegistration({ identity }))
    const mine = newClaim()
    process.kill(own.pid as number, 'SIGSTOP')
    await expect(session?.claim([mine])).rejects.toThrow(/did not answer within 20 ms/)
    process.kill(own.pid as number, 'SIGCONT')
    // The late claim was released, so the next claim is the first one again.
    await until(async () => Number(await its.dbsize()) === 0, { what: 'the late claim to go' })
    const answer = await until(async () => {
      const results = await session?.claim([newClaim({ id: mine.id })]).catch(() => undefined)
      return results?.[0]?.kind === 'acquired' && results[0]
    })
    expect(answer).toEqual(first)
    its.disconnect()
  })

  it('is not called until a probe succeeds, and the guard alone logs the outage', async () => {
    await using own = await redis({ native: true })
    const its = new Redis(own.connection.port, { retryStrategy: () => 20 })
    its.on('error', () => undefined)
    let asked = 0
    const counting: IoredisLike = {
      evalsha: (...args) => {
        asked += 1
        return its.evalsha(...args)
      },
      script: (subcommand, source) => its.script(subcommand, source),
    }
    const { identity } = testHistory()
    const registration = testRegistration({ identity })
    const session = await redisLeases(counting).open?.(registration)
    await own.kill()
    asked = 0
    for (let count = 0; count < 200; count += 1) {
      await expect(session?.claim([newClaim()])).rejects.toThrow(StoreUnavailableError)
    }
    // The first claim and its release. The other 199 claims are not sent.
    expect(asked).toBeLessThanOrEqual(2)
    await own.restart()
    await until(async () => session?.claim([newClaim()]).catch(() => undefined))
    // The guard logs an outage of its lease store, once for every kind of store.
    expect(registration.logged).toEqual([])
    its.disconnect()
  })

  // Red when the end of a claim is held back like a claim: the event waits for its lease, whatever its retry says.
  it('is told at once how claims ended, also while it gets no claims', async () => {
    let isAway = false
    const flaky: IoredisLike = {
      evalsha: (...args) =>
        isAway ? Promise.reject(new Error('Connection is closed.')) : client.evalsha(...args),
      script: (subcommand, source) => client.script(subcommand, source),
    }
    const { identity } = testHistory()
    const options = { ...patient, namespace: randomUUID() }
    const session = await redisLeases(flaky, options).open?.(testRegistration({ identity }))
    const mine = newClaim()
    expect(await session?.claim([mine])).toEqual([first])
    isAway = true
    await expect(session?.claim([newClaim()])).rejects.toThrow(/Connection is closed/)
    isAway = false
    await expect(session?.claim([newClaim()])).rejects.toThrow(/is closed.*asked again in \d+ ms/)
    expect(await session?.fail([{ ...mine, delayMs: 60_000 }])).toEqual(['held'])
    expect(await session?.claim([newClaim({ id: mine.id })])).toMatchObject([{ kind: 'not-due' }])
  })
})
