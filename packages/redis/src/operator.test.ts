import { ConfigurationError } from '@onceward/core'
import { newClaim } from '@onceward/testing/conformance'
import { describe, expect, it, test } from 'vitest'
import { scriptedClient } from './fixtures/scripted-client.ts'
import { boundTo, bucketKeys, keyOf, type Namespace } from './keys.ts'
import { examineRedis, inspectEvent } from './operator.ts'

const HOUR_MS = 3_600_000
const { id } = newClaim()

describe('what Redis knows of an event', () => {
  const without = { identity: undefined, dedupWindowMs: 24 * HOUR_MS }

  it.each<[unknown, object]>([
    [['', 0, '0', 0, ''], { kind: 'absent', remainingMs: 0, attempt: 0, detail: '' }],
    [
      ['p', 0, '900', 2, 'takeover'],
      { kind: 'in-progress', remainingMs: 900, attempt: 2, detail: 'takeover' },
    ],
    [['w', 0, '-5', 3, ''], { kind: 'waiting', remainingMs: -5, attempt: 3 }],
    [['d', 0, '0', 0, ''], { kind: 'done', isMarked: false }],
    // Some clients answer numbers as strings.
    [['', '1', '0', '0', ''], { kind: 'absent', isMarked: true, attempt: 0 }],
    [['x', 0, '0', 5, 'fatal'], { kind: 'dead', isMarked: false, attempt: 5, detail: 'fatal' }],
    [['?', 0, '0', 0, ''], { kind: 'unreadable' }],
    [null, { kind: 'unreadable', isMarked: false }],
  ])('%j is shown as %j', async (answer, shown) => {
    const { client } = scriptedClient({ inspect: [[answer]] })
    expect(await inspectEvent(client, id, without)).toMatchObject(shown)
  })

  const unbound: Namespace = { name: 'onceward', markMs: 0, bucketSecret: '', keepMs: 0 }
  it.each<[string, object, Namespace]>([
    ['without an inbox', {}, unbound],
    ['in a namespace', { namespace: 'mine' }, { ...unbound, name: 'mine' }],
    ['with an inbox', { identity: 'a' }, boundTo('a', { ...unbound, markMs: HOUR_MS })],
    [
      'whose guards remember it for less',
      { identity: 'a', rememberDoneMs: 60_000 },
      boundTo('a', { ...unbound, markMs: 60_000 }),
    ],
    [
      'with a short dedup window',
      { identity: 'a', dedupWindowMs: HOUR_MS },
      boundTo('a', { ...unbound, markMs: HOUR_MS / 3 }),
    ],
  ])('is looked for %s where its guards have it', async (_, over, namespace) => {
    const { client, sent } = scriptedClient({ inspect: [[['', 0, '0', 0, '']]] })
    await inspectEvent(client, id, { ...without, ...over })
    const marks = namespace.markMs === 0 ? [] : bucketKeys(namespace, id)
    expect(sent.map(({ name, keys }) => [name, keys])).toEqual([
      ['inspect', [keyOf(namespace, id).toString('latin1'), ...marks]],
    ])
    expect(sent[0]?.args[0]).toBe(String(namespace.markMs))
  })

  it('is not asked with options that no guard can have', async () => {
    const { client, sent } = scriptedClient({})
    const asked = inspectEvent(client, id, { ...without, namespace: 'a b' })
    await expect(asked).rejects.toThrow(ConfigurationError)
    expect(sent).toEqual([])
  })
})

const atStart = (info: string) =>
  scriptedClient({
    claim: [[['acquired', 'first', 1]], [['in-progress', 9]], [['acquired', 'takeover', 2]]],
    renew: [[1]],
    examine: [[[60_000, info]]],
    forget: [[1]],
  })

describe('the doctor', () => {
  it.each([
    ['without an inbox', true, 'CONFIG SET maxmemory-policy noeviction', '0', 1],
    ['with an inbox', false, 'CONFIG SET maxmemory-policy volatile-ttl', String(HOUR_MS), 3],
  ])('tests Redis as a guard %s does', async (_, isTruth, remedy, markMs, keys) => {
    const { client, sent } = atStart('redis_version:7.2.0\r\nmaxmemory_policy:allkeys-lru')
    expect(await examineRedis(client, { isTruth, namespace: 'mine' })).toMatchObject([{ remedy }])
    const claim = sent.find(({ name }) => name === 'claim')
    expect([claim?.keys[0]?.slice(0, 8), claim?.keys.length]).toEqual(['{o:mine:', keys])
    expect(claim?.args.slice(0, 2)).toEqual([markMs, '60000'])
  })

  test('refuses a server that is too old', async () => {
    const { client, sent } = atStart('redis_version:5.0.0')
    const examined = examineRedis(client, { isTruth: true })
    await expect(examined).rejects.toThrow(ConfigurationError)
    expect(sent[0]?.keys[0]).toMatch(/^\{o:onceward:/)
  })
})
