import type { Destination } from '@onceward/core'
import { until } from '@onceward/testing'
import { silent } from '@onceward/testing/conformance'
import { Kysely, PostgresDialect } from 'kysely'
import { DataSource } from 'typeorm'
import { expect, test } from 'vitest'
import { recording, text, useRelays } from '../fixtures/relays.ts'
import { kyselyInbox } from '../kysely.ts'
import { pgInbox } from '../pg.ts'
import { wakeRelays } from '../transaction/outbox-wake.ts'
import { typeormInbox } from '../typeorm.ts'
import type { RelayOptions } from './options.ts'
import { startRelay } from './relay.ts'
import { RelayStore } from './relay-store.ts'

const kit = useRelays()
const { left, send, start: relay } = kit

test('a message is published as it was sent, and deleted after it was confirmed', async () => {
  const { destination, got } = recording()
  const started = await relay({ a: destination })
  await send({ to: 'a', key: 'k ü', payload: { n: 1 }, headers: { h: 'ü' }, type: 't', id: 'm-1' })
  await send({ to: 'a', payload: Uint8Array.of(0, 255), id: 'm-2' }, { to: 'nowhere', payload: 1 })
  await send({ to: 'a', payload: 'a\uffff', id: 'm-3' })
  await send({ to: 'a', payload: 'ü', headers: { 'content-type': 'text/plain' }, id: 'm-4' })
  await until(async () => (await left()) === 1)
  expect(got.toSorted((a, b) => a.id.localeCompare(b.id))).toMatchObject([
    {
      ...{ id: 'm-1', key: 'k ü', source: 'test', type: 't', headers: { h: 'ü' } },
      ...{ contentType: 'application/json', payload: Buffer.from('{"n":1}') },
    },
    { contentType: 'application/octet-stream', payload: Buffer.from([0, 255]) },
    { contentType: 'application/json', payload: Buffer.from('"a\\uffff"') },
    { contentType: 'text/plain', payload: Buffer.from('ü') },
  ])
  expect(started.health()).toMatchObject({ state: 'running', settleFailures: 0 })
  await started.drain()
  await started.stopped
  expect(started.health().state).toBe('stopped')
})

test('a relay reads the tables of an inbox, over what the inbox was made with', async () => {
  const connectionString = kit.pool.options.connectionString as string
  const dataSource = new DataSource({ type: 'postgres', url: connectionString })
  const inboxes = [
    pgInbox(kit.pool),
    pgInbox({ connectionString, max: 3 }),
    typeormInbox(dataSource, { connectionString }),
  ]
  for (const inbox of inboxes) {
    const { destination, got } = recording()
    const started = await startRelay({ inbox, destinations: { a: destination }, logger: silent })
    await send({ to: 'a', payload: 1 })
    await until(() => got.length === 1)
    await started.drain()
  }
  const inbox = kyselyInbox(new Kysely({ dialect: new PostgresDialect({ pool: kit.pool }) }))
  const { destination } = recording()
  await expect(startRelay({ inbox, destinations: { a: destination } })).rejects.toThrow(
    'Expected `inbox` of startRelay to be made with a `connectionString` or a pool of pg.',
  )
})

test('two relays share the work, and each key keeps its order', async () => {
  const perKey = new Map<string, string[]>()
  const by = [0, 0]
  const at = (index: number): Destination => ({
    batch: 7,
    publish: async (messages) => {
      by[index] = (by[index] ?? 0) + messages.length
      expect(new Set(messages.map(({ key }) => key)).size).toBe(messages.length)
      for (const message of messages) {
        const key = message.key ?? ''
        perKey.set(key, [...(perKey.get(key) ?? []), text(message)])
      }
      return messages.map(() => undefined)
    },
  })
  const lease = { leaseMs: 1_000 }
  await relay({ a: at(0) }, lease)
  await relay({ a: at(1) }, lease)
  await until(async () => {
    const { rows } = await kit.pool.query(
      'select count(distinct relay)::int as n from onceward.outbox_leases where bucket >= 0',
    )
    return rows[0].n === 2
  })
  const keys = Array.from({ length: 40 }, (_, n) => `key-${n}`)
  for (let n = 0; n < 20; n += 1) {
    await send(...keys.map((key) => ({ to: 'a', key, payload: n })))
  }
  await until(async () => (await left()) === 0)
  const inOrder = Array.from({ length: 20 }, (_, n) => String(n))
  for (const key of keys) expect(perKey.get(key)).toEqual(inOrder)
  expect(by[0]).toBeGreaterThan(0)
  expect(by[1]).toBeGreaterThan(0)
})

// Red before: relays shared buckets whatever they published, so what was in a bucket of the other one waited for ever.
test('relays with different destinations leave nothing behind, and share those that both have', async () => {
  const [a, b, c] = [recording(), recording(), recording()]
  const first = await relay({ a: a.destination, c: c.destination }, { leaseMs: 1_000 })
  const second = await relay({ b: b.destination, c: c.destination }, { leaseMs: 1_000 })
  const messages = Array.from({ length: 200 }, (_, n) => ({ key: `k${n}`, payload: n }))
  for (const to of ['a', 'b', 'c']) await send(...messages.map((message) => ({ to, ...message })))
  await until(async () => (await left()) === 0)
  expect([a.got.length, b.got.length, c.got.length]).toEqual([200, 200, 200])
  const countOf = async (to: string): Promise<number> => {
    const { rows } = await kit.pool.query(
      `select count(distinct relay)::int as n from onceward.outbox_leases where bucket >= 0 and destination = $1`,
      [to],
    )
    return rows[0].n
  }
  await until(async () => (await countOf('c')) === 2)
  expect([await countOf('a'), await countOf('b')]).toEqual([1, 1])
  expect([first.health().state, second.health().state]).toEqual(['running', 'running'])
})

test('a refused message holds its key alone, and leaves in order when it is taken', async () => {
  let isRefusing = true
  const { destination, got } = recording((message) =>
    isRefusing && text(message) === '1' ? { refused: new Error('too large') } : undefined,
  )
  const started = await relay({ a: destination })
  await send(...[1, 2, 3].map((payload) => ({ to: 'a', key: 'held', payload })), {
    to: 'a',
    key: 'free',
    payload: 4,
  })
  await until(() => got.length === 1 && started.health().reason !== undefined)
  expect(started.health().reason).toContain('refused: too large')
  await send({ to: 'a', key: 'held', payload: 5 }, { to: 'a', key: 'free', payload: 6 })
  await until(() => got.length === 2)
  isRefusing = false
  await until(async () => (await left()) === 0)
  expect(got.filter(({ key }) => key === 'held').map(text)).toEqual(['1', '2', '3', '5'])
})

test('a message that is refused too often is a dead letter, and its key goes on', async () => {
  const { destination, got } = recording((message) =>
    text(message) === '1' ? { refused: new Error('no') } : undefined,
  )
  await relay({ a: destination }, { attempts: 2 })
  await send(...[1, 2].map((payload) => ({ to: 'a', key: 'k', payload })))
  await until(() => got.length === 1, { deadlineMs: 30_000 })
  expect(got.map(text)).toEqual(['2'])
  expect(await left("state = 'x' and attempt = 2 and error = 'no'")).toBe(1)
})

test('a destination that hangs or is down keeps no other from its messages, and loses nothing', async () => {
  let isHanging = true
  const hanging = recording(() => (isHanging ? new Promise(() => undefined) : undefined))
  const { destination, got } = recording()
  const started = await relay({ hangs: hanging.destination, a: destination }, { callMs: 200 })
  await send({ to: 'hangs', key: 'k', payload: 1 }, { to: 'a', payload: 2 })
  await until(() => got.length === 1 && started.health().outages !== undefined)
  expect(started.health().outages).toEqual([
    { dependency: 'broker', reason: expect.stringMatching(/^hangs: .*no answer within 200 ms/) },
  ])
  expect(started.health()).toMatchObject({
    ...{ state: 'running', reason: expect.stringMatching(/^down: hangs: .*no answer/) },
  })
  isHanging = false
  await until(async () => (await left()) === 0, { deadlineMs: 30_000 })
  expect(hanging.got.map(text)).toEqual(['1'])
  expect(started.health().outages).toBeUndefined()
})

test('a delayed message leaves when it is due, and a commit in the process wakes the relay', async () => {
  const { destination, got } = recording()
  await relay({ a: destination })
  await send({ to: 'a', payload: 'late', delayMs: 1_200 }, { to: 'a', payload: 'now' })
  wakeRelays()
  await until(() => got.length === 1)
  expect(got.map(text)).toEqual(['"now"'])
  await until(() => got.length === 2)
  expect(await until(async () => (await left()) === 0)).toBe(true)
})

test('the messages of a relay that is gone without a word leave through another one', async () => {
  const gone = new RelayStore(kit.pool, '"onceward"', ['a'])
  expect((await gone.lease(1_500)).get('a')).toHaveLength(64)
  const { destination, got } = recording()
  await relay({ a: destination }, { leaseMs: 1_000 })
  await send({ to: 'a', payload: 1 })
  await until(() => got.length === 1)
})

test('a drain waits for what is being published, and gives its buckets back', async () => {
  const gate = Promise.withResolvers<void>()
  const { calls, destination, got } = recording(() => gate.promise.then(() => undefined))
  const started = await relay({ a: destination })
  await send({ to: 'a', payload: 1 })
  await until(() => calls.length === 1)
  const drained = started.drain()
  expect(started.health().state).toBe('draining')
  gate.resolve()
  await drained
  expect(got).toHaveLength(1)
  expect(await left()).toBe(0)
  const { rows } = await kit.pool.query('select from onceward.outbox_leases')
  expect(rows).toEqual([])
})

test.each([
  ['no destination', { destinations: {} }],
  ['what is no destination', { destinations: { a: {} } }],
  ['a destination without `batch`', { destinations: { a: { publish: async () => [] } } }],
  ['a batch of 0', { destinations: { a: { batch: 0, publish: async () => [] } } }],
  ['a destination that no message can name', { destinations: { 'a b': recording().destination } }],
  ['no database', { pool: undefined }],
  ['an option that it does not know', { atempts: 1 }],
  ['a number out of range', { attempts: 0 }],
  ['tables that are not there', { schema: 'nowhere' }],
])('refuses %s', async (_what, over) => {
  const options = { pool: kit.pool, destinations: { a: recording().destination }, ...over }
  await expect(startRelay(options as unknown as RelayOptions)).rejects.toMatchObject({
    code: 'ONCEWARD_CONFIGURATION',
  })
})

// Red before: a minute passed until anybody was told of a name that was mistyped.
test('a relay says what it relays, and names a destination that nobody has within ten seconds', async () => {
  const said: unknown[] = []
  const say = (fields: object, text: string): void => void said.push(fields, text)
  const { destination } = recording()
  await relay({ a: destination }, { logger: { ...silent, info: say, warn: say } })
  expect(said).toEqual([{ destinations: ['a'] }, expect.stringContaining('publishes messages')])
  const sentAtMs = performance.now()
  await send({ to: 'typo', payload: 1 })
  await until(() => said.length > 2)
  expect(performance.now() - sentAtMs).toBeLessThan(10_000)
  expect(said.slice(2)).toEqual([
    { destination: 'typo', waiting: 1 },
    expect.stringContaining('a destination that no relay has'),
  ])
})

test('figures tell what waits by destination, and a destination that no relay has is named once', async () => {
  const warned: object[] = []
  const { destination } = recording()
  const down = recording(() => ({ unknown: new Error('down') }))
  await relay({ b: down.destination })
  await send(
    { to: 'a', payload: 1 },
    { to: 'b', payload: 1 },
    { to: 'typo', payload: 2 },
    { to: 'late', payload: 3, delayMs: 60_000 },
  )
  await kit.pool.query(
    "update onceward.outbox_messages set created_at = now() - interval '2 minutes'",
  )
  const logger = { ...silent, warn: (fields: object) => void warned.push(fields) }
  const started = await relay({ a: destination }, { logger, leaseMs: 1_000 })
  await until(() => warned.length > 0)
  await until(async () => (await left("destination = 'a'")) === 0)
  expect(warned).toEqual([{ destination: 'typo', waiting: 1 }])
  const figures = await started.figures()
  expect(figures.map(({ destination: to }) => to).toSorted()).toEqual(['a', 'b', 'late', 'typo'])
  const of = (name: string) => figures.find(({ destination: to }) => to === name)
  expect(of('a')).toMatchObject({ published: 1, failed: 0, dead: 0 })
  expect(of('late')).toMatchObject({ waiting: 0, delayed: 1, oldestWaitingMs: 0 })
  expect(of('b')).toMatchObject({ waiting: 1, isServed: true })
  expect(started.health()).toMatchObject({
    state: 'running',
    reason: 'typo: messages wait, and no relay has this destination',
  })
  const typo = of('typo')
  expect(typo).toMatchObject({ isServed: false, waiting: 1, delayed: 0, refused: 0, published: 0 })
  expect(typo?.oldestWaitingMs).toBeGreaterThanOrEqual(120_000)
})
