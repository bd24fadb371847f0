import { ConfigurationError, StoreUnavailableError } from '@onceward/core'
import type { ClaimResult } from '@onceward/core/ports'
import { newClaim } from '@onceward/testing/conformance'
import { describe, expect, it, test } from 'vitest'
import { BUDGET_MS, scriptedRedis } from './fixtures/scripted-redis.ts'

const first = { kind: 'acquired', by: 'first', attempt: 1 }
const held = { id: newClaim().id, ownerToken: newClaim().ownerToken }

/** Enough for everything that waits for no timer. */
async function idle(): Promise<void> {
  for (let turn = 0; turn < 3; turn += 1) await new Promise((resolve) => setImmediate(resolve))
}

/** Beside an inbox whose history a test may replace. */
function beside() {
  const postgres = { history: 'first', read: async () => postgres.history }
  return { postgres, ...scriptedRedis({ identity: () => postgres.read() }) }
}

const fails = () => Promise.reject(new Error('Connection is closed.'))
const never = () => new Promise<never>(() => undefined)

describe('the start', () => {
  it('fails without an inbox when Redis does not answer', async () => {
    const { session, answers } = scriptedRedis()
    answers.set('claim', fails)
    await expect(session.start()).rejects.toThrow(/Connection is closed/)
  })

  it('succeeds beside an inbox, and each claim says what failed until a test in the background has passed', async () => {
    const { session, answers, calls, clock, registration } = beside()
    const claim = answers.get('claim')!
    answers.set('claim', fails)
    await session.start()
    calls.length = 0
    await expect(session.claim([newClaim()])).rejects.toThrow(
      /Connection is closed.*is asked again/,
    )
    expect(calls).toEqual([])
    clock.nowMs += 1_000
    answers.set('claim', () => Promise.reject(new Error('Redis is still away.')))
    const refusal = session.claim([newClaim()])
    await expect(refusal).rejects.toThrow(/its self-test must pass/)
    await expect(refusal).rejects.toMatchObject({ cause: { message: 'Connection is closed.' } })
    await idle()
    clock.nowMs += 2_000
    answers.set('claim', claim)
    // The next test passes, and the refusal names the failure of the last one.
    await expect(session.claim([newClaim()])).rejects.toMatchObject({
      cause: { message: 'Redis is still away.' },
    })
    await idle()
    expect(await session.claim([newClaim()])).toEqual([first])
    expect(registration.logged).toEqual([])
  })

  it.each([
    ['refused at the start', false],
    ['refused when it comes back', true],
  ])('a server that is too old is %s, with what to do', async (_, isLater) => {
    const { session, answers, clock, registration } = beside()
    const tooOld = () => [[60_000, 'redis_version:6.0.0']]
    answers.set('examine', isLater ? fails : tooOld)
    const starting = session.start()
    if (!isLater) {
      await expect(starting).rejects.toThrow(ConfigurationError)
      return
    }
    await starting
    answers.set('examine', tooOld)
    clock.nowMs += 1_000
    await expect(session.claim([newClaim()])).rejects.toThrow(StoreUnavailableError)
    await idle()
    expect(registration.logged).toMatchObject([
      { level: 'error', message: expect.stringMatching(/self-test.*not used/) },
    ])
    expect(registration.logged[0]?.fields).toMatchObject({ err: expect.any(ConfigurationError) })
    await expect(session.claim([newClaim()])).rejects.toThrow(/6\.0\.0.*is asked again/)
  })

  it('ends beside an inbox when Redis or the identity of PostgreSQL does not answer', async () => {
    const hanging = beside()
    hanging.answers.set('examine', never)
    const starting = hanging.session.start()
    await idle()
    hanging.fire(2_000)
    await starting
    await expect(hanging.session.claim([newClaim()])).rejects.toThrow(/within 2000 ms/)

    const unknown = beside()
    unknown.postgres.read = never
    const begun = unknown.session.start()
    await idle()
    unknown.fire(500)
    await begun
    expect(unknown.calls).toEqual([])
    await expect(unknown.session.claim([newClaim()])).rejects.toThrow(/identity of PostgreSQL/)
  })
})

describe('a claim', () => {
  // Red when a mark of Redis is believed although PostgreSQL may have failed over to a server without the commit.
  test('believes no done mark while PostgreSQL does not say which history it has', async () => {
    const { session, answers, clock, fire, postgres } = beside()
    await session.start()
    const all = ['duplicate', 'conflict', 'in-progress', 'dead', 'acquired']
    answers.set('claim', () => all.map((kind) => [kind, kind === 'acquired' ? 'first' : '1', 1]))
    const claims = all.map(() => newClaim())
    const kinds = (results: readonly ClaimResult[]) => results.map(({ kind }) => kind)
    expect(kinds(await session.claim(claims))).toEqual(all)
    postgres.read = never
    clock.nowMs += 5_001
    const asked = session.claim(claims)
    await idle()
    // The wait for PostgreSQL is bounded.
    fire(500)
    expect(kinds(await asked)).toEqual(['unknown', 'unknown', 'in-progress', 'dead', 'acquired'])
  })

  // Red when a claim after a failover of PostgreSQL does not wait: its marks may be those of a lost history.
  test('waits for PostgreSQL when its history was read too long ago', async () => {
    const { session, answers, clock, postgres, sent } = beside()
    await session.start()
    answers.set('claim', () => [['duplicate']])
    clock.nowMs += 5_001
    const read = Promise.withResolvers<string>()
    postgres.read = () => read.promise
    const before = sent('claim')
    const asked = session.claim([newClaim()])
    await idle()
    expect(sent('claim')).toBe(before)
    read.resolve('first')
    expect(await asked).toEqual([{ kind: 'duplicate', result: undefined }])
  })

  it.each<[string, boolean]>([
    ['is answered too late', true],
    ['is answered too late and then fails', false],
  ])('that %s is released, so that its events need not wait for a lease', async (_, isGranted) => {
    const { session, answers, calls, fire } = beside()
    await session.start()
    const late = Promise.withResolvers<readonly unknown[]>()
    answers.set('claim', () => late.promise)
    const claims = [newClaim(), newClaim(), newClaim()]
    const asked = session.claim(claims)
    await idle()
    calls.length = 0
    fire(BUDGET_MS)
    await expect(asked).rejects.toThrow(`within ${BUDGET_MS} ms`)
    await idle()
    expect(calls).toEqual([])
    if (isGranted) {
      late.resolve([
        ['acquired', 'first', 1],
        ['in-progress', 9],
        ['acquired', 'first', 1],
      ])
    } else late.reject(new Error('The connection is gone.'))
    await idle()
    const [one, two, three] = claims
    expect(calls.map(({ script }) => script)).toEqual(['release'])
    expect(calls[0]?.entries.map(({ id }) => id)).toEqual(
      (isGranted ? [one, three] : [one, two, three]).map((claim) => claim?.id),
    )
  })
})

describe('the end of a claim', () => {
  const ends = ['renew', 'complete', 'fail', 'release', 'bury'] as const

  test.each(ends)('%s finds a claim that was taken before a failover', async (verb) => {
    const { session, answers, calls, clock, postgres } = beside()
    await session.start()
    const [old, other] = [newClaim(), newClaim()]
    await session.claim([old])
    postgres.history = 'second'
    clock.nowMs += 6_000
    await session.claim([other])
    calls.length = 0
    const all = [other, { id: newClaim().id, ownerToken: held.ownerToken }, old]
    const logged = all.map((each) => ({ ...each, delayMs: 0, reason: 'fatal' as const }))
    expect(await session[verb](logged, 30_000)).toEqual(['held', 'lost', 'held'])
    // The second namespace is asked only for what the first does not hold.
    expect(calls.map(({ entries }) => entries.map(({ id }) => id))).toEqual([
      all.map(({ id }) => id),
      all.slice(1).map(({ id }) => id),
    ])
    calls.length = 0
    if (verb === 'renew') {
      expect(await session.renew([other], 30_000)).toEqual(['held'])
      expect(calls).toHaveLength(1)
    }
    answers.set(verb, fails)
    await expect(session[verb](logged, 30_000)).rejects.toThrow(/Connection is closed/)
    // The failure counts: the next claim does not wait for a Redis that is gone.
    await expect(session.claim([newClaim()])).rejects.toThrow(/is asked again/)
  })
})

describe('a key that another program wrote', () => {
  it.each([
    ['are decided by PostgreSQL', beside],
    ['cannot run until the key is gone', () => ({ ...scriptedRedis(), postgres: { history: '' } })],
  ])('is reported once a minute, in whatever histories: its events %s', async (effect, setUp) => {
    const { session, answers, clock, postgres, registration } = setUp()
    await session.start()
    answers.set('claim', ({ entries }) => entries.map(() => ['unknown']))
    const claimOf = (ms: number, history: string): unknown => {
      postgres.history = history
      clock.nowMs += ms
      return session.claim([newClaim()])
    }
    await claimOf(0, 'first')
    await claimOf(6_000, 'second')
    await claimOf(53_999, 'second')
    const logged = () => registration.logged.filter(({ message }) => message.includes(effect))
    expect(logged()).toMatchObject([{ level: 'warn', fields: { consumer: 'billing', count: 1 } }])
    await claimOf(1, 'second')
    expect(logged().slice(1)).toMatchObject([
      { fields: { count: 3, key: expect.stringContaining('{o:orders') } },
    ])
  })
})
