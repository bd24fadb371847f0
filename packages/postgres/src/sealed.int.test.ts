import type { Delivery, Seal } from '@onceward/core'
import { toDelivery } from '@onceward/core/memory'
import { until } from '@onceward/testing'
import { silent } from '@onceward/testing/conformance'
import { describe, expect, test } from 'vitest'
import { all } from './fixtures/inbox.ts'
import {
  dies,
  type Handler,
  LARGE,
  order,
  SECRET,
  seals,
  useSealedTables,
} from './fixtures/sealed.ts'
import { deadLetters, migrate } from './index.ts'

const tables = useSealedTables()
const { leaks, processed } = tables

/** Refused, because it has no key. */
const keyless = (body?: Uint8Array): Delivery => {
  const delivery = toDelivery({ iban: SECRET }, { headers: { 'x-iban': SECRET }, messageId: 'm' })
  return body === undefined ? delivery : { ...delivery, body, messageId: 'n' }
}

const sends: Handler = ({ payload }, { outbox }) => {
  outbox.send({ to: 'bank', payload, headers: { 'x-iban': payload.iban } })
  return payload.iban
}
const fails: Handler = () => {
  throw new Error('not yet')
}

/** One of everything that is stored of messages. */
async function fill(seal: Seal | undefined): Promise<void> {
  await processed(seal, sends, order('done'))
  await processed(seal, fails, order('failed'))
  await processed(seal, dies, order('dead'))
  await processed(seal, dies, order('large', LARGE))
  await processed(seal, dies, keyless())
  await processed(seal, dies, keyless(Buffer.from(LARGE)))
  await processed(seal, dies, keyless(Buffer.from(`{"iban": ${SECRET}}`)))
}

test('a guard with seal writes nothing of a payload in plain into any column of any table', async () => {
  await fill(undefined)
  expect(await leaks()).toEqual([
    ...['event_results', 'failed_event_parts', 'failed_events', 'outbox_messages'],
    ...['refused_message_parts', 'refused_messages'],
  ])
  await tables.pool.query('drop schema onceward cascade')
  await migrate(tables.pool)
  await fill(seals.old)
  expect(await leaks()).toEqual([])
  for (const name of [
    'event_results',
    'failed_event_parts',
    'outbox_messages',
    'refused_messages',
  ]) {
    const { rows } = await tables.pool.query(`select 1 from onceward.${name}`)
    expect([name, rows.length > 0]).toEqual([name, true])
  }
})

describe('a replay of sealed dead letters', () => {
  test('runs them as they came, once a guard has their key, and until then they stay', async () => {
    await processed(seals.old, dies, order('a'))
    await processed(seals.old, dies, order('b', LARGE))
    const letters = deadLetters(tables.pool)
    expect((await letters.replay({ all: true })).done).toHaveLength(2)
    const runs: unknown[] = []
    const seen: Handler = ({ headers, payload: { iban, key, more = '' } }) =>
      void runs.push([key, headers['x-iban'], iban, more.length])
    for (const seal of [seals.new, undefined]) {
      const told: object[] = []
      const error = (fields: object): unknown => told.push(fields)
      const guard = tables.guard(seal, seen, { logger: { ...silent, error } })
      await guard.process(order('new'))
      await until(() => told.length === 2, { what: 'that both stay is said', deadlineMs: 20_000 })
      await guard.close()
    }
    expect(runs.splice(0)).toHaveLength(1)
    await tables.guard(seals.rotated, seen).process(order('newer'))
    await until(() => runs.length === 3, { what: 'the runs of both', deadlineMs: 30_000 })
    expect(runs.toSorted()).toEqual([
      ['a', SECRET, SECRET, 0],
      ['b', SECRET, SECRET, LARGE.length],
      ['newer', SECRET, SECRET, 0],
    ])
    expect(await all(letters.list())).toEqual([])
  })

  test('whose run fails again seals with the new key', async () => {
    await processed(seals.old, dies, order('a'))
    await deadLetters(tables.pool).replay({ all: true })
    const guard = tables.guard(seals.rotated, dies)
    await guard.process(order('other'))
    const letters = deadLetters(tables.pool, { seal: seals.rotated })
    await until(async () => (await all(letters.list())).length === 2, {
      what: 'the second death',
      deadlineMs: 20_000,
    })
    const shown = await all(letters.list())
    expect(shown.map(({ sealed }) => sealed)).toEqual([undefined, undefined])
  })
})

test('a guard that gets a seal later reads and runs what is stored in plain', async () => {
  await fill(undefined)
  const letters = deadLetters(tables.pool, { seal: seals.old })
  expect((await all(letters.list())).length).toBeGreaterThan(3)
  await letters.replay({ all: true })
  const runs: unknown[] = []
  const guard = tables.guard(seals.old, ({ key }) => void runs.push(key))
  const settlement = await guard.process(order('done'), { needsResult: true })
  expect(settlement).toEqual({ kind: 'ack', by: 'duplicate', result: SECRET })
  await until(() => runs.includes('dead') && runs.includes('large'), {
    what: 'the runs of both',
    deadlineMs: 30_000,
  })
})

test('while nothing can be sealed no effect is committed, and no event dies of that', async () => {
  let isAway = true
  const away: Seal = {
    ...seals.old,
    seal: (bytes, context) => {
      if (isAway) throw new Error('the key service is away')
      return seals.old.seal(bytes, context)
    },
  }
  await tables.pool.query('create table charges (id text primary key)')
  const charge: Handler = async ({ key }, { tx }) => {
    await tx.query('insert into charges values ($1)', [key])
    return { key, iban: SECRET }
  }
  await processed(undefined, fails, order('counted'))
  await tables.pool.query(
    "update onceward.failed_events set next_try = now() - interval '1 minute'",
  )
  // Each has a breaker of its own: more tries than an event has attempts and runs without a verdict.
  for (let tries = 0; tries < 35; tries += 1) {
    for (const key of ['fresh', 'counted']) {
      const guard = tables.guard(away, charge, { retry: { attempts: 2 } })
      const error = { code: 'ONCEWARD_SEAL' }
      const settlement = await guard.process(order(key))
      expect(settlement).toMatchObject({ kind: 'defer', reason: 'store-down', error })
      await guard.close()
    }
  }
  const charged = async (): Promise<unknown[]> =>
    (await tables.pool.query('select id from charges order by 1')).rows.map(({ id }) => id)
  expect([await charged(), await leaks()]).toEqual([[], []])
  isAway = false
  const guard = tables.guard(away, charge)
  for (const key of ['fresh', 'counted']) {
    expect(await guard.process(order(key))).toMatchObject({ kind: 'ack', by: 'processed' })
  }
  expect([await charged(), await leaks()]).toEqual([['counted', 'fresh'], []])
})
