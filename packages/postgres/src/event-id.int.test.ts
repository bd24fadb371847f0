import { eventIdOf } from '@onceward/core/ports'
import { fresh, newEvent } from '@onceward/testing/conformance'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type TestInbox, testInbox } from './fixtures/inbox.ts'

let inbox: TestInbox

beforeAll(async () => {
  inbox = await testInbox()
})
afterAll(() => inbox[Symbol.asyncDispose]())

interface Identity {
  readonly consumer: string
  readonly tenant: string | undefined
  readonly key: string
}

/** Ids by the SQL function, many in one statement. */
async function sqlIds(identities: readonly Identity[]): Promise<readonly string[]> {
  const { rows } = await inbox.pool.query<{ id: string }>(
    `select ${inbox.schema}.event_id(consumer, tenant, key)::text as id
     from unnest($1::text[], $2::text[], $3::text[]) with ordinality as i(consumer, tenant, key, n) order by n`,
    [
      identities.map(({ consumer }) => consumer),
      identities.map(({ tenant }) => tenant ?? null),
      identities.map(({ key }) => key),
    ],
  )
  return rows.map(({ id }) => id)
}

// Text in SQL has no NUL and no surrogates. There are characters of every length in UTF-8.
const RANGES = [
  [0x1, 0x7f],
  [0x80, 0x7ff],
  [0x800, 0xd7ff],
  [0xe000, 0xffff],
  [0x1_0000, 0x10_ffff],
] as const

function randomText(longest: number): string {
  const length = Math.floor(Math.random() * (longest + 1))
  const points = Array.from({ length }, () => {
    const [from, to] = RANGES[Math.floor(Math.random() * RANGES.length)] ?? [0x61, 0x7a]
    return from + Math.floor(Math.random() * (to - from + 1))
  })
  return String.fromCodePoint(...points)
}

it('the event id is the same in TypeScript and in SQL for 10,000 random keys of any Unicode', async () => {
  const identities = Array.from({ length: 10_000 }, (_, index) => ({
    consumer: randomText(20),
    tenant: index % 3 === 0 ? undefined : randomText(index % 101 === 0 ? 1_000 : 20),
    // Keys of more than 1,024 bytes are hashed.
    key: randomText(index % 50 === 0 ? 2_000 : 40),
  }))
  const expected = identities.map(({ consumer, tenant, key }) => eventIdOf(consumer, tenant, key))
  const actual = await sqlIds(identities)
  const differing = identities.filter((_, index) => actual[index] !== expected[index])
  expect(differing).toEqual([])
})

it('parts that are equal when concatenated give different event ids', async () => {
  const ids = await sqlIds([
    { consumer: 'ab', tenant: undefined, key: 'c' },
    { consumer: 'a', tenant: 'b', key: 'c' },
    { consumer: 'a', tenant: undefined, key: 'bc' },
    { consumer: 'a', tenant: 'bc', key: '' },
  ])
  expect(new Set(ids).size).toBe(4)
})

// Red when the id is made of the key alone: the second consumer finds the event done.
it('traps T28 and A7: one key at two consumers is two events, with an effect each', async () => {
  const [billing, mailing] = await sqlIds([
    { consumer: 'billing', tenant: undefined, key: 'order-1' },
    { consumer: 'mailing', tenant: undefined, key: 'order-1' },
  ])
  expect(billing).not.toBe(mailing)
  await inbox.pool.query('create table effects (consumer text)')
  for (const consumer of ['billing', 'mailing', 'billing', 'mailing']) {
    const session = await inbox.open({ consumer })
    const id = eventIdOf(consumer, undefined, 'order-1')
    const begun = await session.begin(fresh(newEvent({ id })))
    if (begun.kind !== 'open') continue
    await begun.transaction.tx.query('insert into effects values ($1)', [consumer])
    await begun.transaction.commit({ results: new Map(), recovered: [] })
  }
  const { rows } = await inbox.pool.query('select consumer from effects order by 1')
  expect(rows).toEqual([{ consumer: 'billing' }, { consumer: 'mailing' }])
})
