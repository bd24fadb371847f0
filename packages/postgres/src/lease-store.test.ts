import {
  type LeaseRegistration,
  type LeaseSession,
  StoreUnavailableError,
  systemRuntime,
} from '@onceward/core'
import { LEASE_MS, newClaim, silent } from '@onceward/testing/conformance'
import { describe, expect, test } from 'vitest'
import { type LeaseAnswer, type SentLeases, scriptedLeases } from './fixtures/scripted-leases.ts'
import { postgresLeases } from './lease-store.ts'

const WINDOW_MS = 7_000
const HINT_MS = 86_400_000
const DEFAULT_WINDOW_MS = 1_296_000_000
const identity = async (): Promise<string> => 'history'

const registration: LeaseRegistration = {
  ...{ consumer: 'billing', leaseMs: LEASE_MS, dedupWindowMs: WINDOW_MS },
  ...{ logger: silent, runtime: systemRuntime },
}

const first = { kind: 'acquired', by: 'first', attempt: 1 }
const idsOf = ({ rows }: SentLeases): readonly string[] => rows?.map(({ id }) => String(id)) ?? []

/** Every claim is the first, and every owner holds its events. */
const willing = (sent: SentLeases): LeaseAnswer => {
  if (sent.name === 'areLeasesUnlogged') return ['false']
  if (sent.name === 'claimLeases') return idsOf(sent).map(() => JSON.stringify(first))
  return idsOf(sent)
}

/** The store of one guard: without an inbox, or beside one. */
async function opened(
  over: Partial<LeaseRegistration> = {},
  answer: (sent: SentLeases) => LeaseAnswer | Promise<LeaseAnswer> = willing,
) {
  const { pool, sent } = scriptedLeases(answer)
  const session = (await postgresLeases(pool).open?.({ ...registration, ...over })) as LeaseSession
  return { session, sent: () => sent.slice(1) }
}

const mine = newClaim()
const { id, ownerToken } = mine
const owned = { id, ownerToken, owner: ownerToken }

const VERBS: readonly {
  readonly verb: string
  readonly act: (session: LeaseSession) => Promise<unknown>
  readonly name: string
  /** The statement beside an inbox, where it is another. */
  readonly beside?: string
  readonly row: object
}[] = [
  {
    ...{ verb: 'renew', act: (session) => session.renew([mine], 500) },
    ...{ name: 'renewLeases', row: { ...owned, leaseMs: 500 } },
  },
  {
    ...{ verb: 'complete', act: (session) => session.complete([mine], 600) },
    ...{ name: 'completeLeases', beside: 'dropLeases', row: { ...owned, rememberMs: 600 } },
  },
  {
    verb: 'complete with a result',
    act: (session) => session.complete([{ ...mine, result: { "it's": '\\' } }], 600),
    ...{ name: 'completeLeases', beside: 'dropLeases' },
    row: { ...owned, rememberMs: 600, result: '{"it\'s":"\\\\"}' },
  },
  {
    ...{ verb: 'fail', act: (session) => session.fail([{ ...mine, delayMs: 700 }]) },
    ...{ name: 'failLeases', row: { ...owned, delayMs: 700 } },
  },
  {
    ...{ verb: 'release', act: (session) => session.release([mine]) },
    ...{ name: 'releaseLeases', row: owned },
  },
  {
    ...{ verb: 'bury', act: (session) => session.bury([{ ...mine, reason: 'fatal' }], 800) },
    ...{ name: 'buryLeases', beside: 'dropLeases' },
    row: { ...owned, reason: 'fatal', rememberMs: 800 },
  },
]

// Red when an answered ack is only in memory: after a crash of PostgreSQL its copy would run again.
describe.each(VERBS)('$verb', ({ act, name, beside = name, row }) => {
  test('without an inbox is on disk before it is answered', async () => {
    const { session, sent } = await opened()
    expect(await act(session)).toEqual(['held'])
    expect(sent()).toEqual([{ name, rows: [row], isDurable: true }])
  })

  test('beside an inbox is as durable as the user wants it', async () => {
    const { session, sent } = await opened({ identity })
    expect(await act(session)).toEqual(['held'])
    expect(sent()).toEqual([{ name: beside, rows: [row], isDurable: false }])
  })

  test('answers an owner that was replaced with lost', async () => {
    const { session } = await opened({}, (sent) => (sent.name === name ? [] : willing(sent)))
    expect(await act(session)).toEqual(['lost'])
  })

  test('of a store without a guard does the same', async () => {
    const { pool, sent } = scriptedLeases(willing)
    expect(await act(postgresLeases(pool))).toEqual(['held'])
    expect(sent).toEqual([{ name, rows: [row], isDurable: true }])
  })
})

test.each([
  ['replay', 'replayLeases'],
  ['forget', 'forgetLeases'],
] as const)('an operator is told which events he could %s', async (verb, name) => {
  const [other, third] = [newClaim().id, newClaim().id]
  const { pool, sent } = scriptedLeases((asked) => idsOf(asked).filter((each) => each !== other))
  expect(await postgresLeases(pool)[verb]([id, other, third])).toEqual([true, false, true])
  const rows = [id, other, third].map((each) => ({ id: each, keepMs: DEFAULT_WINDOW_MS }))
  expect(sent).toEqual([{ name, rows, isDurable: true }])
})

// Red when one statement gets both: PostgreSQL changes a row once, and only one of the two owners is the right one.
test('an event that occurs twice is asked for in two statements, each answered in its place', async () => {
  const [other, twin] = [newClaim(), newClaim({ id })]
  const { session, sent } = await opened({}, (asked) =>
    asked.rows?.some(({ owner }) => owner === twin.ownerToken) ? [] : willing(asked),
  )
  expect(await session.release([mine, twin, other])).toEqual(['held', 'lost', 'held'])
  expect(sent().map(idsOf)).toEqual([[id, other.id], [id]])
})

describe('a claim', () => {
  const claim = newClaim({ maxAttempts: 3 })
  const { fingerprint, leaseMs } = claim
  const row = { id: claim.id, owner: claim.ownerToken, leaseMs, most: 3 }

  test.each([
    ['without an inbox', {}, WINDOW_MS, true],
    ['beside an inbox', { identity }, HINT_MS, false],
  ] as const)('%s is kept as long as it may matter', async (_where, over, keepMs, isDurable) => {
    const { session, sent } = await opened(over)
    expect(await session.claim([claim])).toEqual([first])
    const rows = [{ ...row, fingerprint: String(fingerprint), keepMs }]
    expect(sent()).toEqual([{ name: 'claimLeases', rows, isDurable }])
  })

  test('of a store without a guard is kept for the default window', async () => {
    const { pool, sent } = scriptedLeases(willing)
    expect(await postgresLeases(pool).claim([claim])).toEqual([first])
    expect(sent).toMatchObject([{ rows: [{ keepMs: DEFAULT_WINDOW_MS }], isDurable: true }])
  })

  test.each([
    [
      { kind: 'duplicate', result: null },
      { kind: 'duplicate', result: undefined },
    ],
    [
      { kind: 'duplicate', result: 'null' },
      { kind: 'duplicate', result: null },
    ],
    [
      { kind: 'duplicate', result: '{"a":1}' },
      { kind: 'duplicate', result: { a: 1 } },
    ],
    [
      { kind: 'in-progress', remainingMs: 5 },
      { kind: 'in-progress', remainingMs: 5 },
    ],
  ])('that is answered with %j is %j', async (answer, expected) => {
    const { session } = await opened({}, (sent) =>
      sent.name === 'claimLeases' ? [JSON.stringify(answer)] : willing(sent),
    )
    expect(await session.claim([claim])).toStrictEqual([expected])
  })

  test('of nothing asks nothing', async () => {
    const { session, sent } = await opened()
    expect(await session.claim([])).toEqual([])
    expect(sent()).toEqual([])
  })

  test('shares a statement with others while two are under way', async () => {
    const { session, sent } = await opened()
    const claims = Array.from({ length: 5 }, () => newClaim())
    const answers = await Promise.all(claims.map((each) => session.claim([each])))
    expect(answers).toEqual(claims.map(() => [first]))
    expect(sent().map((each) => idsOf(each).length)).toEqual([1, 1, 3])
  })
})

describe('what is over', () => {
  /** A guard whose sweeps answer this, and then nothing. `sweeps` claims at these times, in ms. */
  async function sweeping(...answers: readonly LeaseAnswer[]) {
    let nowMs = 0
    const left = [...answers]
    const runtime = { ...systemRuntime, monotonic: () => nowMs }
    const { session, sent } = await opened({ runtime }, (each) =>
      each.name === 'sweepLeases' ? (left.shift() ?? ['0']) : willing(each),
    )
    return async (...timesMs: readonly number[]) => {
      const counts: number[] = []
      for (const timeMs of timesMs) {
        nowMs = timeMs
        expect(await session.claim([newClaim()])).toEqual([first])
        counts.push(sent().filter(({ name }) => name === 'sweepLeases').length)
      }
      return counts
    }
  }

  test('is deleted by the claims of a guard, once a minute', async () => {
    const sweepsAt = await sweeping()
    expect(await sweepsAt(0, 59_999, 60_000, 60_000, 119_999, 120_000)).toEqual([0, 0, 1, 1, 1, 2])
  })

  test('is deleted by the next claim too where there may be more', async () => {
    const sweepsAt = await sweeping(['1000'], ['999'])
    expect(await sweepsAt(60_000, 60_000, 60_000)).toEqual([1, 2, 2])
  })

  // Red when a slow sweep takes time from the leases of its claim.
  test('is deleted before the claim', async () => {
    let nowMs = 0
    const runtime = { ...systemRuntime, monotonic: () => nowMs }
    const { session, sent } = await opened({ runtime })
    nowMs = 60_000
    await session.claim([newClaim()])
    expect(sent().map(({ name }) => name)).toEqual(['sweepLeases', 'claimLeases'])
  })

  // Red when the claims of a minute fail with the sweep, or repeat it at once.
  test('is deleted later where the sweep fails', async () => {
    const sweepsAt = await sweeping(new StoreUnavailableError('down'))
    expect(await sweepsAt(60_000, 60_001, 120_000)).toEqual([1, 1, 2])
  })
})

describe('a guard', () => {
  const unlogged = (sent: SentLeases): LeaseAnswer =>
    sent.name === 'areLeasesUnlogged' ? ['true'] : willing(sent)

  test.each([
    ['without an inbox is warned of a table that a crash empties', {}, unlogged, 1],
    ['without an inbox is not warned of another table', {}, willing, 0],
    ['beside an inbox needs no table that lasts', { identity }, unlogged, 0],
  ] as const)('%s', async (_who, over, answer, warnings) => {
    const told: object[] = []
    const logger = { ...silent, warn: (fields: object): void => void told.push(fields) }
    await opened({ ...over, logger }, answer)
    const warning = { consumer: 'billing', remedy: "migrate(pool, { leases: 'logged' })" }
    expect(told).toEqual(Array(warnings).fill(warning))
  })

  const outage = Object.assign(new Error('down'), { code: '57P03' })
  const missing = Object.assign(new Error('no table'), { code: '42P01' })

  test.each([
    ['without an inbox does not start during an outage', {}, outage],
    ['without an inbox does not start without its table', {}, missing],
    ['beside an inbox does not start without its table', { identity }, missing],
  ] as const)('%s', async (_who, over, error) => {
    await expect(opened(over, () => error)).rejects.toHaveProperty('cause', error)
  })

  test('beside an inbox starts during an outage', async () => {
    const { session } = await opened({ identity }, () => outage)
    await expect(session.claim([mine])).rejects.toThrow(StoreUnavailableError)
  })
})
