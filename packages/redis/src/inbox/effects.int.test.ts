import { randomUUID } from 'node:crypto'
import {
  createBatchGuard,
  createGuard,
  type Delivery,
  type Guard,
  type OutcomeRecord,
} from '@onceward/core'
import { toDelivery } from '@onceward/core/memory'
import { type RedisConnection, redis, type Server } from '@onceward/testing'
import { silent } from '@onceward/testing/conformance'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { cluster } from '../fixtures/cluster.ts'
import type { RedisTransaction } from './handle.ts'
import { redisInbox } from './inbox.ts'

let server: Server<RedisConnection>
let client: Redis

beforeAll(async () => {
  server = await redis({ native: true })
  client = new Redis(server.connection.port)
})
afterAll(async () => {
  client.disconnect()
  await server.stop()
})

type Tx = RedisTransaction
type Work = (tx: Tx, key: (name: string) => string) => void | Promise<void>

interface Scene {
  readonly guard: Guard
  readonly key: (name: string) => string
  readonly delivery: Delivery
  /** How often the handler ran. */
  readonly runs: () => number
  readonly records: readonly OutcomeRecord[]
}

/** A guard of its own tag, and one event. */
function scene(work: Work, retry = { attempts: 5 }): Scene {
  const hashTag = randomUUID()
  const key = (name: string): string => `{${hashTag}}${name}`
  const records: OutcomeRecord[] = []
  let runs = 0
  const guard = createGuard(
    {
      ...{ consumer: 'stock', logger: silent, retry },
      inbox: redisInbox(client, { hashTag }),
      observe: (record) => records.push(record),
    },
    async (_, { tx }) => {
      runs += 1
      await work(tx, key)
    },
  )
  return { guard, key, delivery: toDelivery({ sku: 'a' }), runs: () => runs, records }
}

test('every kind of write is applied once, however often its event is delivered', async () => {
  const { delivery, guard, key, runs } = scene((tx, key) => {
    tx.set(key('text'), Buffer.from([0, 255, 10]))
    tx.set(key('gone'), 1)
    tx.del(key('gone'))
    tx.incrBy(key('count'), 5)
    tx.incrBy(key('count'), -7n)
    tx.hSet(key('hash'), { a: 1, b: 'two' })
    tx.hIncrBy(key('hash'), 'a', 41)
    tx.zAdd(key('board'), 1.5, 'ann')
    tx.zIncrBy(key('board'), 2, 'ann')
    tx.zAdd(key('board'), Number.POSITIVE_INFINITY, 'top')
    tx.sAdd(key('set'), 'x', 'y', 'x')
    tx.lPush(key('list'), 'first', 'second')
    tx.xAdd(key('stream'), { n: 7 })
    tx.expire(key('list'), 60_000)
  })
  const settled = await guard.processBatch([delivery, delivery])
  expect(settled.map(({ kind }) => kind)).toEqual(['ack', 'ack'])
  expect(await guard.process(delivery)).toMatchObject({ kind: 'ack' })
  expect(runs()).toBe(1)
  expect([...((await client.getBuffer(key('text'))) ?? [])]).toEqual([0, 255, 10])
  expect(await client.exists(key('gone'))).toBe(0)
  expect(await client.get(key('count'))).toBe('-2')
  expect(await client.hgetall(key('hash'))).toEqual({ a: '42', b: 'two' })
  expect(await client.zmscore(key('board'), 'ann', 'top')).toEqual(['3.5', 'inf'])
  expect(await client.scard(key('set'))).toBe(2)
  expect(await client.lrange(key('list'), 0, -1)).toEqual(['second', 'first'])
  expect(await client.pttl(key('list'))).toBeGreaterThan(50_000)
  expect(await client.xlen(key('stream'))).toBe(1)
})

const MAX = '9223372036854775807'
const MIN = '-9223372036854775808'

/** What is there, and the second of two writes, which does not fit. Red when it is not looked for before the first. */
const UNFIT: readonly (readonly [
  string,
  string,
  (key: string) => Promise<unknown>,
  (tx: Tx, key: string) => void,
])[] = [
  [
    'incrBy of a list',
    'WRONGTYPE',
    (key) => client.lpush(key, 'x'),
    (tx, key) => tx.incrBy(key, 1),
  ],
  [
    'hSet of a text',
    'WRONGTYPE',
    (key) => client.set(key, 'x'),
    (tx, key) => tx.hSet(key, { a: 1 }),
  ],
  [
    'sAdd of a hash',
    'WRONGTYPE',
    (key) => client.hset(key, 'a', '1'),
    (tx, key) => tx.sAdd(key, 'a'),
  ],
  ['lPush of a set', 'WRONGTYPE', (key) => client.sadd(key, 'a'), (tx, key) => tx.lPush(key, 'a')],
  [
    'zAdd of a stream',
    'WRONGTYPE',
    (key) => client.xadd(key, '*', 'a', '1'),
    (tx, key) => tx.zAdd(key, 1, 'a'),
  ],
  [
    'xAdd of a sorted set',
    'WRONGTYPE',
    (key) => client.zadd(key, 1, 'a'),
    (tx, key) => tx.xAdd(key, { a: 1 }),
  ],
  [
    'incrBy of a text',
    'NOTINTEGER',
    (key) => client.set(key, '1.5'),
    (tx, key) => tx.incrBy(key, 1),
  ],
  [
    'incrBy of a padded number',
    'NOTINTEGER',
    (key) => client.set(key, '007'),
    (tx, key) => tx.incrBy(key, 1),
  ],
  [
    'hIncrBy of a text',
    'NOTINTEGER',
    (key) => client.hset(key, 'f', 'x'),
    (tx, key) => tx.hIncrBy(key, 'f', 1),
  ],
  [
    'incrBy beyond 64 bits',
    'OVERFLOW',
    (key) => client.set(key, MAX),
    (tx, key) => tx.incrBy(key, 1),
  ],
  [
    'incrBy below 64 bits',
    'OVERFLOW',
    (key) => client.set(key, MIN),
    (tx, key) => tx.incrBy(key, -1),
  ],
  [
    'hIncrBy beyond 64 bits',
    'OVERFLOW',
    (key) => client.hset(key, 'f', MAX),
    (tx, key) => tx.hIncrBy(key, 'f', 1),
  ],
  [
    'two sums that overflow together',
    'OVERFLOW',
    (key) => client.set(key, '9223372036854775806'),
    (tx, key) => {
      tx.incrBy(key, 1)
      tx.incrBy(key, 1)
    },
  ],
  [
    'zIncrBy to NaN',
    'NAN',
    (key) => client.zadd(key, Number.POSITIVE_INFINITY, 'm'),
    (tx, key) => tx.zIncrBy(key, Number.NEGATIVE_INFINITY, 'm'),
  ],
  [
    'a write on what this handler has made',
    'WRONGTYPE',
    (key) => client.lpush(key, 'x'),
    (tx, key) => {
      tx.set(key, 'text')
      tx.lPush(key, 'x')
    },
  ],
  [
    'the last stream id',
    'EXHAUSTED',
    (key) => client.xadd(key, '18446744073709551615-18446744073709551615', 'a', '1'),
    (tx, key) => tx.xAdd(key, { a: 1 }),
  ],
]

describe('a write that does not fit', () => {
  test.each(UNFIT)('%s leaves neither mark nor effect (%s)', async (_, code, before, write) => {
    const { delivery, guard, key } = scene((tx, key) => {
      tx.incrBy(key('other'), 1)
      write(tx, key('held'))
      tx.incrBy(key('other'), 1)
    })
    await before(key('held'))
    const dump = await client.dumpBuffer(key('held'))
    const settlement = await guard.process(delivery)
    expect(settlement).toMatchObject({ kind: 'defer', reason: 'failed' })
    expect(String(settlement.kind === 'defer' && settlement.error)).toContain(code)
    expect(await client.exists(key('other'))).toBe(0)
    expect(await client.dumpBuffer(key('held'))).toEqual(dump)
  })

  test.each([
    ['the largest sum', '9223372036854775806', 1, MAX],
    ['the smallest sum', '-9223372036854775807', -1, MIN],
    ['a carry', '999999999', 1, '1000000000'],
    ['a borrow', '1000000000', -1, '999999999'],
    ['over zero', '-1000000001', 2000000002, '1000000001'],
  ])('is not %s', async (_, held, by, sum) => {
    const { delivery, guard, key } = scene((tx, key) => tx.incrBy(key('n'), by))
    await client.set(key('n'), held)
    expect(await guard.process(delivery)).toMatchObject({ kind: 'ack' })
    expect(await client.get(key('n'))).toBe(sum)
  })

  test('is a dead letter after its attempts, which an operator replays once the key is mended', async () => {
    const { delivery, guard, key } = scene((tx, key) => tx.incrBy(key('n'), 1), { attempts: 1 })
    await client.lpush(key('n'), 'x')
    expect(await guard.process(delivery)).toMatchObject({ kind: 'dead-letter' })
    const inbox = redisInbox(client, { hashTag: key('').slice(1, -1) })
    const [letter] = await inbox.deadLetters('stock')
    expect(letter).toMatchObject({ reason: 'attempts-spent', attempts: 1 })
    expect(letter?.error).toContain('WRONGTYPE')
    await client.del(key('n'))
    if (letter === undefined) throw new Error('no dead letter')
    expect(await inbox.replay('other', letter.ref)).toBe(true)
    expect(await inbox.replay('stock', letter.ref)).toBe(false)
  })
})

test('a watched key that changes before the commit makes the handler run again, on the new value', async () => {
  let disturbances = 2
  const { delivery, guard, key, runs } = scene(async (tx, key) => {
    await tx.watch(key('stock'))
    const stock = Number(await client.get(key('stock')))
    if (disturbances-- > 0) await client.decr(key('stock'))
    tx.set(key('stock'), stock - 1)
  })
  await client.set(key('stock'), 10)
  expect(await guard.process(delivery)).toMatchObject({ kind: 'ack' })
  expect(runs()).toBe(3)
  expect(await client.get(key('stock'))).toBe('7')
})

test('many handlers that watch one key lose no update', async () => {
  const all = scene(async (tx, key) => {
    await tx.watch(key('n'))
    tx.set(key('n'), Number(await client.get(key('n'))) + 1)
  })
  const deliveries = Array.from({ length: 6 }, () => toDelivery({}))
  const left = new Set(deliveries)
  while (left.size > 0) {
    for (const delivery of left) {
      const { kind } = await all.guard.process(delivery)
      if (kind === 'ack') left.delete(delivery)
    }
  }
  expect(await client.get(all.key('n'))).toBe('6')
})

test.each<[string, Work, RegExp]>([
  ['another slot', (tx) => tx.set('{other}n', 1), /outside of the slot/],
  ['no hash tag', (tx) => tx.incrBy('n', 1), /Begin its name with the hash tag/],
  ['a key of onceward', (tx, key) => tx.del(key('o:onceward:settings')), /belongs to onceward/],
  ['half a number', (tx, key) => tx.incrBy(key('n'), 0.5), /tx\.incrBy was refused/],
  ['more than 64 bits', (tx, key) => tx.incrBy(key('n'), 2n ** 63n), /bigint of 64 bits/],
  ['NaN', (tx, key) => tx.zAdd(key('n'), Number.NaN, 'm'), /tx\.zAdd was refused/],
  ['an object', (tx, key) => tx.set(key('n'), {} as never), /JSON\.stringify/],
  ['JSON without the module', (tx, key) => tx.jsonSet(key('n'), '$', {}), /no JSON\.SET/],
  ['no time', (tx, key) => tx.expire(key('n'), 0), /at least 1/],
  ['a key of no name', (tx) => tx.watch(''), /tx\.watch was refused/],
])('%s is refused at the call, with what to do', async (_, work, message) => {
  const { delivery, guard } = scene(work)
  const settlement = await guard.process(delivery)
  expect(settlement).toMatchObject({ kind: 'defer', reason: 'failed' })
  expect(String(settlement.kind === 'defer' && settlement.error)).toMatch(message)
})

test('the handle refuses after the handler has returned, and after the deadline', async () => {
  let kept: Tx | undefined
  const { delivery, guard, key } = scene((tx, key) => {
    kept = tx
    tx.incrBy(key('n'), 1)
  })
  await guard.process(delivery)
  expect(() => kept?.incrBy(key('n'), 1)).toThrow(/is over/)
  await expect(kept?.watch(key('n'))).rejects.toThrow(/is over/)
  const inbox = redisInbox(client, { hashTag: key('').slice(1, -1) })
  const late = createGuard(
    { consumer: 'late', inbox, logger: silent, deadlineMs: 50 },
    async (_, { signal, tx }) => {
      tx.incrBy(key('n'), 1)
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
      tx.incrBy(key('n'), 1)
    },
  )
  const settlement = await late.process(toDelivery({}))
  expect(settlement).toMatchObject({ kind: 'defer', error: { name: 'DeadlineExceededError' } })
  expect(await client.get(key('n'))).toBe('1')
})

// Red when the commit does not look at the lock: a process that was frozen would apply its effect after its successor.
test('an owner whose lock has expired commits nothing, whether a successor has run the event or not', async () => {
  let between = async (): Promise<void> => undefined
  const first = scene(async (tx, key) => {
    tx.incrBy(key('n'), 1)
    await between()
  })
  const inbox = redisInbox(client, { hashTag: first.key('').slice(1, -1) })
  const successor = createGuard({ consumer: 'stock', inbox, logger: silent }, async (_, { tx }) =>
    tx.incrBy(first.key('n'), 10),
  )
  const expire = async (): Promise<void> => {
    between = async () => undefined
    await client.del(await client.keys(first.key('o:onceward:le?*')))
  }
  between = async () => {
    await expire()
    expect(await successor.process(first.delivery)).toMatchObject({ by: 'processed' })
  }
  expect(await first.guard.process(first.delivery)).toMatchObject({ by: 'duplicate' })
  expect(await client.get(first.key('n'))).toBe('10')
  between = expire
  expect(await first.guard.process(toDelivery({}))).toMatchObject({ by: 'processed' })
  expect(first.runs()).toBe(3)
  expect(await client.get(first.key('n'))).toBe('11')
})

test('events of one call share a transaction, and a failing one is left out', async () => {
  const hashTag = randomUUID()
  const inbox = redisInbox(client, { hashTag })
  const guard = createGuard(
    { consumer: 'shared', inbox, logger: silent, transaction: 'batch', retry: { attempts: 1 } },
    async ({ payload }, { tx }) => {
      tx.incrBy(`{${hashTag}}n`, 1)
      if ((payload as { n: number }).n === 3) throw new Error('poison')
    },
  )
  const deliveries = [1, 2, 3, 4, 5].map((n) => toDelivery({ n }))
  const kinds = (await guard.processBatch(deliveries)).map(({ kind }) => kind)
  expect(kinds).toEqual(['ack', 'ack', 'dead-letter', 'ack', 'ack'])
  expect(await client.get(`{${hashTag}}n`)).toBe('4')
})

test('on a cluster a hash tag is demanded, and effect and mark are in one slot', async () => {
  await using nodes = await cluster()
  const { Cluster } = await import('ioredis')
  const own = new Cluster(nodes.nodes.map(({ host, port }) => ({ host, port })))
  const guardOf = (hashTag: string | undefined) =>
    createGuard(
      { consumer: 'stock', inbox: redisInbox(own, { hashTag }), logger: silent },
      async (_, { tx }) => tx.incrBy('{shop}n', 1),
    )
  await expect(guardOf(undefined).process(toDelivery({}))).rejects.toThrow(/hashTag/)
  const delivery = toDelivery({})
  const guard = guardOf('shop')
  expect(await guard.process(delivery)).toMatchObject({ kind: 'ack' })
  expect(await guard.process(delivery)).toMatchObject({ kind: 'ack' })
  expect(await own.get('{shop}n')).toBe('1')
  own.disconnect()
})

test('a message that is split, and a batch handler, apply each event once', async () => {
  const hashTag = randomUUID()
  const inbox = redisInbox(client, { hashTag })
  const common = { inbox, logger: silent, retry: { attempts: 1 } } as const
  interface Item {
    readonly id: string
  }
  const runs: string[] = []
  const split = createGuard(
    {
      ...{ ...common, consumer: 'split' },
      split: ({ payload }: { payload: { items: Item[] } }) => payload.items,
      eventKey: ({ payload }) => (payload as Item).id,
    },
    async ({ payload }, { tx }) => {
      runs.push((payload as Item).id)
      tx.incrBy(`{${hashTag}}split`, 1)
      if ((payload as Item).id === 'bad') throw new Error('poison')
    },
  )
  const message = (...ids: string[]) => toDelivery({ items: ids.map((id) => ({ id })) })
  expect(await split.process(message('a', 'bad', 'b'))).toMatchObject({ kind: 'ack' })
  expect(await split.process(message('b', 'c', 'a'))).toMatchObject({ kind: 'ack' })
  expect(await client.get(`{${hashTag}}split`)).toBe('3')
  expect(runs.toSorted()).toEqual(['a', 'b', 'bad', 'c'])
  expect(await inbox.deadLetters('split')).toMatchObject([{ key: 'bad' }])

  const batch = createBatchGuard({ ...common, consumer: 'batch' }, async (events, { tx }) => {
    tx.incrBy(`{${hashTag}}batch`, events.length)
    if (events.some(({ payload }) => (payload as { n: number }).n === 2)) throw new Error('poison')
  })
  const deliveries = [1, 2, 3, 4].map((n) => toDelivery({ n }))
  for (const by of ['processed', 'duplicate']) {
    const settled = await batch.processBatch(deliveries)
    expect(settled).toMatchObject([{ by }, { kind: 'dead-letter' }, { by }, { by }])
  }
  expect(await client.get(`{${hashTag}}batch`)).toBe('3')
})
