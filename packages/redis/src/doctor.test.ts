import { ConfigurationError, StoreUnavailableError } from '@onceward/core'
import { describe, expect, it, test } from 'vitest'
import { scriptedRedis } from './fixtures/scripted-redis.ts'

/** A guard that starts on a server with this INFO. */
function setUp(info = 'redis_version:7.2.0\r\nmaxmemory_policy:noeviction', isTruth = true) {
  const redis = scriptedRedis(isTruth ? {} : { identity: async () => 'first' })
  redis.answers.set('examine', () => [[60_000, info]])
  return redis
}

describe('a round of the self-test that fails', () => {
  // Red when a flush during the start refuses a server that works.
  it.each([
    [1, true],
    [2, true],
    [3, false],
  ])('%i times: the start succeeds (%s)', async (rounds, succeeds) => {
    const { session, answers, sent } = setUp()
    const examine = answers.get('examine')!
    answers.set('examine', (batch) => (sent('examine') > rounds ? examine(batch) : [[-2, '']]))
    const starting = session.start()
    if (succeeds) await expect(starting).resolves.toBeUndefined()
    else await expect(starting).rejects.toThrow(ConfigurationError)
    expect(sent('examine')).toBe(Math.min(3, rounds + 1))
  })

  it('is the last one if Redis is away, and says what failed although the event cannot be forgotten', async () => {
    const { session, answers, sent } = setUp()
    const away = () => Promise.reject(new StoreUnavailableError('Redis is away.'))
    answers.set('examine', away)
    answers.set('forget', () => Promise.reject(new Error('Redis is still away.')))
    await expect(session.start()).rejects.toThrow('Redis is away.')
    expect([sent('examine'), sent('forget')]).toEqual([1, 1])
  })
})

test.each<[string, boolean]>([
  ['3.2.12', false],
  ['6.0.20', false],
  ['6.1.9', false],
  ['6.2.0', true],
  ['6.10', true],
  ['7.0.0', true],
  ['10.1', true],
  ['6', false],
])('Redis %s fits: %s', async (version, fits) => {
  const starting = setUp(`# Server\r\nredis_version:${version}\r\n`, false).session.start()
  if (fits) await expect(starting).resolves.toBeUndefined()
  else await expect(starting).rejects.toThrow(`6.2 or newer, got ${version}: update the server`)
})

const info = (policy: string, aof = '1') =>
  `redis_version:7.2.0\r\nmaxmemory_policy:${policy}\r\naof_enabled:${aof}\r\n`

describe.each([
  ['without an inbox', true],
  ['with an inbox', false],
])('%s', (_, isTruth) => {
  const [noEviction, volatileTtl, appendOnly, mayInfo] = [
    ...['CONFIG SET maxmemory-policy noeviction', 'CONFIG SET maxmemory-policy volatile-ttl'],
    ...['CONFIG SET appendonly yes', 'ACL SETUSER <user> +info'],
  ]
  it.each([
    [info('noeviction'), [], []],
    [info('noeviction').replaceAll('\r', ''), [], []],
    [info('noeviction', '0'), [appendOnly], []],
    [info('allkeys-lru'), [noEviction], [volatileTtl]],
    [info('volatile-ttl', '0'), [noEviction, appendOnly], []],
    ['', [mayInfo], []],
  ])(
    'a guard that starts on a server with %j advises %j, or with an inbox %j',
    async (text, alone, beside) => {
      const { session, registration } = setUp(text, isTruth)
      await session.start()
      const warned = registration.logged.filter(({ level }) => level === 'warn')
      const remedies = warned.map(({ fields }) => Reflect.get(fields, 'remedy'))
      expect(remedies).toEqual(isTruth ? alone : beside)
    },
  )
})
