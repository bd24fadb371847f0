import { ConfigurationError, type LeaseRegistration, systemRuntime } from '@onceward/core'
import { newClaim } from '@onceward/testing/conformance'
import { afterEach, describe, expect, it, test, vi } from 'vitest'
import { testRegistration } from './fixtures/registration.ts'
import { type ScriptAnswers, scriptedClient } from './fixtures/scripted-client.ts'
import { redisLeases } from './index.ts'
import { boundTo, bucketKeys, keyOf, type Namespace } from './keys.ts'
import type { RedisLeases } from './lease-store.ts'
import type { RedisLeasesOptions } from './options.ts'

const DAY_MS = 86_400_000
const unbound: Namespace = { name: 'onceward', markMs: 0, bucketSecret: '', keepMs: 0 }
const mine = newClaim({ leaseMs: 30_000 })
const { id, ownerToken } = mine

const verbs: readonly [keyof RedisLeases, (leases: RedisLeases) => Promise<unknown>][] = [
  ['claim', (leases) => leases.claim([mine])],
  ['renew', (leases) => leases.renew([mine], 1_000)],
  ['complete', (leases) => leases.complete([{ ...mine, result: 5 }], 2_000)],
  ['fail', (leases) => leases.fail([{ ...mine, delayMs: 3_000 }])],
  ['release', (leases) => leases.release([mine])],
  ['bury', (leases) => leases.bury([{ ...mine, reason: 'fatal' }], 4_000)],
  ['replay', (leases) => leases.replay([id])],
  ['forget', (leases) => leases.forget([id])],
]

describe('without a guard', () => {
  afterEach(() => {
    vi.useRealTimers()
  })
  const told: Readonly<Record<string, readonly unknown[]>> = {
    renew: ['1000', ownerToken],
    complete: ['2000', ownerToken, '5'],
    fail: [ownerToken, '3000'],
    release: [ownerToken],
    bury: ['4000', ownerToken, 'fatal'],
    replay: [],
    forget: [],
  }
  const answers: Readonly<Record<string, unknown>> = {
    claim: [{ kind: 'conflict' }],
    replay: [true],
    forget: [true],
  }

  it.each(verbs)('%s concerns the event of every guard without an inbox', async (verb, call) => {
    const { client, sent } = scriptedClient({ [verb]: [[verb === 'claim' ? ['conflict'] : 1]] })
    const leases = redisLeases(client, { namespace: 'mine' })
    expect(await call(leases)).toEqual(answers[verb] ?? ['held'])
    const key = keyOf({ ...unbound, name: 'mine' }, id).toString('latin1')
    // No done marks, and a state that outlives the default dedup window.
    const common = ['0', String(15 * DAY_MS)]
    const own = told[verb] ?? [expect.any(String), ownerToken, '30000', '0']
    expect(sent).toEqual([{ name: verb, keys: [key], args: [...common, ...own] }])
  })

  it.each(verbs)('%s waits no longer than its budget', async (_, call) => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    for (const [options, budgetMs] of [
      [{}, 1_000],
      [{ budgetMs: 30 }, 30],
    ] as const) {
      const asked = call(redisLeases(scriptedClient({}).client, options))
      const late = expect(asked).rejects.toThrow(`Redis did not answer within ${budgetMs} ms`)
      await vi.advanceTimersByTimeAsync(budgetMs)
      await late
    }
  })
})

/** Opens the leases of a guard on a Redis that passes the self-test and answers nothing else. */
async function open(options: RedisLeasesOptions, over: Partial<LeaseRegistration> = {}) {
  const answers: ScriptAnswers = {
    claim: [[['acquired', 'first', 1]], [['in-progress', 9]], [['acquired', 'takeover', 2]]],
    renew: [[1]],
    examine: [[[60_000, 'redis_version:7.2.0\r\nmaxmemory_policy:noeviction']]],
    forget: [[1]],
  }
  const { client, sent } = scriptedClient(answers)
  let isLate = false
  // Once the guard has started, every wait is over at once.
  const setTimer: typeof systemRuntime.setTimer = (end, ms) =>
    systemRuntime.setTimer(end, isLate ? 1 : ms)
  const runtime = { ...systemRuntime, setTimer }
  const session = await redisLeases(client, options).open?.(testRegistration({ runtime, ...over }))
  isLate = true
  answers.claim = []
  sent.length = 0
  return { session, sent }
}

describe('the leases of a guard', () => {
  const identity = async () => 'a'
  const hour = 3_600_000
  const beside = (markMs: number): Namespace => boundTo('a', { ...unbound, markMs })

  it.each<[string, RedisLeasesOptions, Partial<LeaseRegistration>, Namespace, number, number]>([
    ['without an inbox', {}, {}, unbound, DAY_MS, 1_000],
    [
      'without an inbox, with options',
      { namespace: 'mine', budgetMs: 50, rememberDoneMs: 2 * DAY_MS },
      { dedupWindowMs: 2 * DAY_MS },
      { ...unbound, name: 'mine' },
      2 * DAY_MS,
      50,
    ],
    ['with an inbox', {}, { identity }, beside(hour), DAY_MS, 20],
    [
      'with an inbox, with options',
      { budgetMs: 50, rememberDoneMs: 60_000 },
      { identity },
      beside(60_000),
      DAY_MS,
      50,
    ],
    [
      'with an inbox and a short dedup window',
      {},
      { identity, dedupWindowMs: hour },
      beside(hour / 3),
      DAY_MS,
      20,
    ],
  ])('%s', async (_, options, over, namespace, keepMs, budgetMs) => {
    const { session, sent } = await open(options, over)
    await expect(session?.claim([mine])).rejects.toThrow(`within ${budgetMs} ms`)
    const { keys, args } = sent[0] ?? {}
    const marks = namespace.markMs === 0 ? [] : bucketKeys(namespace, id)
    expect(keys).toEqual([keyOf(namespace, id).toString('latin1'), ...marks])
    expect(args?.slice(0, 2)).toEqual([String(namespace.markMs), String(keepMs)])
  })

  test('without an inbox refuse to remember processed events for less than the dedup window', async () => {
    const opening = open({ rememberDoneMs: DAY_MS - 1 })
    await expect(opening).rejects.toThrow(ConfigurationError)
    await expect(opening).rejects.toThrow(/`dedupWindowMs` \(86400000\).*Leave/)
  })
})
