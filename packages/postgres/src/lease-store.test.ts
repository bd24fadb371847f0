import { type LeaseRegistration, type LeaseSession, systemRuntime } from '@onceward/core/ports'
import { LEASE_MS, newClaim, silent } from '@onceward/testing/conformance'
import { describe, expect, test } from 'vitest'
import { type LeaseAnswer, type SentLeases, scriptedLeases } from './fixtures/scripted-leases.ts'
import { postgresLeases } from './lease-store.ts'

const WINDOW_MS = 7_000
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

// Red when one statement gets both: PostgreSQL changes a row once, and only one of the two owners is the right one.
test('an event that occurs twice is asked for in two statements, each answered in its place', async () => {
  const [other, twin] = [newClaim(), newClaim({ id })]
  const { session, sent } = await opened({}, (asked) =>
    asked.rows?.some(({ owner }) => owner === twin.ownerToken) ? [] : willing(asked),
  )
  expect(await session.release([mine, twin, other])).toEqual(['held', 'lost', 'held'])
  expect(sent().map(idsOf)).toEqual([[id, other.id], [id]])
})
