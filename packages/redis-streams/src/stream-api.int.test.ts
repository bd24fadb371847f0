import { redis as redisServer, type Server } from '@onceward/testing'
import { Redis } from 'ioredis'
import { Redis as Valkey } from 'iovalkey'
import { createClient } from 'redis'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { StreamApi, StreamClient } from './client.ts'
import { apiOf, freshStream, send } from './fixtures/streams.ts'

let server: Server<{ readonly url: string }>
let redis: Redis
const clients = new Map<string, StreamClient>()
const closing: (() => void)[] = []

beforeAll(async () => {
  server = await redisServer()
  const { url } = server.connection
  redis = new Redis(url)
  const valkey = new Valkey(url)
  const pipelined = [
    new Redis(url, { enableAutoPipelining: true }),
    new Valkey(url, { enableAutoPipelining: true }),
  ] as const
  const node = createClient({ url })
  const resp3 = createClient({ url, RESP: 3 })
  await Promise.all([node.connect(), resp3.connect()])
  clients.set('ioredis', redis).set('iovalkey', valkey)
  clients.set('ioredis that pipelines', pipelined[0])
  clients.set('iovalkey that pipelines', pipelined[1])
  clients.set('node-redis', node).set('node-redis with RESP 3', resp3)
  closing.push(
    () => redis.disconnect(),
    () => valkey.disconnect(),
    ...pipelined.map((client) => () => client.disconnect()),
  )
  closing.push(
    () => node.destroy(),
    () => resp3.destroy(),
  )
})
afterAll(async () => {
  for (const close of closing) close()
  await server.stop()
})

const BINARY = Buffer.from([0xff, 0x00, 0xfe])
const READ = { count: 10, blockMs: 500 }
const claimAll = (api: StreamApi, stream: string) => api.claim({ stream, count: 10, cursor: '0-0' })
const pendingOf = async (stream: string): Promise<unknown[][]> =>
  (await redis.xpending(stream, 'billing', '-', '+', 10)) as unknown[][]
/** Without waiting: as if nobody had renewed the entry. */
const abandon = (stream: string, id: string, owner: string) =>
  redis.call('XCLAIM', stream, 'billing', owner, 0, id, 'IDLE', 60_000, 'JUSTID')

describe.each([
  'ioredis',
  'iovalkey',
  'ioredis that pipelines',
  'iovalkey that pipelines',
  'node-redis',
  'node-redis with RESP 3',
])('%s', (name) => {
  test('reads bytes in their order, repeated fields included, and says which of several streams they are of', async () => {
    const [first, second] = [freshStream(), freshStream()]
    const api = apiOf(clients.get(name)!, first, { streams: [first, second] })
    for (const stream of [first, second, second]) await api.ensureGroup(stream)
    await redis.xadd(first, '*', 'a', BINARY, 'b', '1', 'a', '2')
    await redis.xadd(second, '*', 'c', '3')
    const entries = await api.read([first, second], READ)
    const read = entries.map(({ stream, fields }) => [
      stream,
      ...fields.map(([field, value]) => [String(field), Buffer.from(value).toString('hex')]),
    ])
    expect(read).toEqual([
      [first, ['a', 'ff00fe'], ['b', '31'], ['a', '32']],
      [second, ['c', '33']],
    ])
    expect(await api.read([first, second], { count: 10, blockMs: 1 })).toEqual([])
    await api.close()
  })

  test('acks, renews, parks and gives back its own entries, and never those of another consumer', async () => {
    const stream = freshStream()
    const api = apiOf(clients.get(name)!, stream)
    await api.ensureGroup(stream)
    const [mine = '', other = ''] = await send(redis, stream, ['mine', 'other'])
    await api.read([stream], READ)
    await redis.xclaim(stream, 'billing', 'two', 0, other)
    const verbs = {
      renew: () => api.renew(stream, [mine, other]),
      ack: () => api.ack(stream, [other]),
      giveBack: () => api.giveBack(stream, [other]),
      park: async () =>
        (await api.park(stream, { id: other, afterMs: 0, deliveryCount: 1 })) ? [] : [other],
    }
    for (const [verb, call] of Object.entries(verbs)) expect(await call(), verb).toEqual([other])
    expect((await pendingOf(stream)).map(([id, owner]) => [id, owner])).toEqual([
      [mine, 'one'],
      [other, 'two'],
    ])
    expect(await api.ack(stream, [mine])).toEqual([])
    expect(await redis.xlen(stream)).toBe(1)
    await api.close()
  })
})

// Red when a renewal raises the count: an entry of a long handler would look like a poison message.
test('a renewal neither raises the delivery count nor lets another consumer claim the entry', async () => {
  const stream = freshStream()
  const [one, two] = [apiOf(redis, stream), apiOf(redis, stream, { consumerName: 'two' })]
  await one.ensureGroup(stream)
  const [id = ''] = await send(redis, stream, ['a'])
  await one.read([stream], READ)
  await abandon(stream, id, 'one')
  await one.renew(stream, [id])
  expect(await claimAll(two, stream)).toEqual({ cursor: '0-0', entries: [], gone: [] })
  expect(await pendingOf(stream)).toEqual([[id, 'one', expect.any(Number), 1]])
  await one.close()
})

test('an abandoned entry, and one that was given back, goes to whoever looks, and counts as delivered again', async () => {
  const stream = freshStream()
  const [one, two] = [apiOf(redis, stream), apiOf(redis, stream, { consumerName: 'two' })]
  await one.ensureGroup(stream)
  const ids = await send(redis, stream, ['a', 'b', 'c'])
  await one.read([stream], READ)
  await abandon(stream, ids[0]!, 'one')
  await one.giveBack(stream, [ids[1]!])
  const { entries } = await claimAll(two, stream)
  expect(entries.map(({ id, deliveryCount }) => [id, deliveryCount])).toEqual([
    [ids[0], 2],
    [ids[1], 2],
  ])
  await one.close()
})

test('a parked entry is claimed when it is due, not before, and by one consumer', async () => {
  const stream = freshStream()
  const [one, two] = [apiOf(redis, stream), apiOf(redis, stream, { consumerName: 'two' })]
  await one.ensureGroup(stream)
  const [later = '', now = ''] = await send(redis, stream, ['later', 'now'])
  await one.read([stream], READ)
  await one.park(stream, { id: later, afterMs: 60_000, deliveryCount: 1 })
  await one.park(stream, { id: now, afterMs: 0, deliveryCount: 3 })
  expect(await redis.xpending(stream, 'billing')).toMatchObject([0, null, null, null])
  const claimed = await claimAll(two, stream)
  expect(claimed.entries.map(({ id, deliveryCount }) => [id, deliveryCount])).toEqual([[now, 4]])
  expect((await claimAll(one, stream)).entries).toEqual([])
  await one.close()
})

// Red when the answer hides what XAUTOCLAIM and XCLAIM drop: an event would be lost without a word.
test('entries that were trimmed while they were pending or parked are told', async () => {
  const stream = freshStream()
  const api = apiOf(redis, stream)
  await api.ensureGroup(stream)
  const ids = await send(redis, stream, ['pending', 'parked'])
  await api.read([stream], READ)
  await api.park(stream, { id: ids[1]!, afterMs: 0, deliveryCount: 1 })
  await abandon(stream, ids[0]!, 'one')
  await redis.xtrim(stream, 'MAXLEN', 0)
  const { entries, gone } = await claimAll(api, stream)
  expect([entries, gone.toSorted()]).toEqual([[], ids.toSorted()])
  await api.close()
})

test('a dead letter is added and its entry acked in one step, and the entry of another consumer stays', async () => {
  const stream = freshStream()
  const dead = `{${stream}}.dead`
  const api = apiOf(redis, stream)
  await api.ensureGroup(stream)
  const [mine = '', other = ''] = await send(redis, stream, ['mine', 'other'])
  await api.read([stream], READ)
  await redis.xclaim(stream, 'billing', 'two', 0, other)
  const fields = [[Buffer.from('payload'), BINARY]] as const
  for (const id of [mine, other]) await api.add(dead, fields, { stream, id })
  const letters = await redis.xrangeBuffer(dead, '-', '+')
  expect(letters.map(([, letter]) => letter)).toEqual([
    [Buffer.from('payload'), BINARY],
    [Buffer.from('payload'), BINARY],
  ])
  expect((await pendingOf(stream)).map(([id]) => id)).toEqual([other])
  await api.close()
})

test('names without pending entries are removed when they were idle, others never', async () => {
  const stream = freshStream()
  const [one, two] = [apiOf(redis, stream), apiOf(redis, stream, { consumerName: 'two' })]
  await one.ensureGroup(stream)
  await send(redis, stream, ['a'])
  await one.read([stream], READ)
  await two.read([stream], { count: 1, blockMs: 1 })
  await redis.xgroup('CREATECONSUMER', stream, 'billing', 'three')
  await one.removeConsumers(stream, 60_000)
  const namesOf = async () =>
    ((await redis.xinfo('CONSUMERS', stream, 'billing')) as unknown[][]).map(([, name]) => name)
  expect(await namesOf()).toEqual(expect.arrayContaining(['one', 'three']))
  await one.removeConsumers(stream, 0)
  expect(await namesOf()).toEqual(['one'])
  // A consumer that ends with an entry in hand keeps its name, and so the entry.
  await one.close()
  expect(await namesOf()).toEqual(['one'])
  await two.close()
})
