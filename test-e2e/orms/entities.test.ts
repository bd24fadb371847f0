import { randomUUID } from 'node:crypto'
import { MikroORM } from '@mikro-orm/postgresql'
import { createGuard, type Guard, type GuardEvent, type Inbox } from '@onceward/core'
import { toDelivery } from '@onceward/core/memory'
import { systemRuntime } from '@onceward/core/ports'
import { migrate } from '@onceward/postgres'
import { mikroOrmInbox } from '@onceward/postgres/mikro-orm'
import { prismaInbox } from '@onceward/postgres/prisma'
import { typeormInbox } from '@onceward/postgres/typeorm'
import { database } from '@onceward/testing'
import { registration, silent } from '@onceward/testing/conformance'
import { PrismaPg } from '@prisma/adapter-pg'
import pg from 'pg'
import { DataSource, type EntitySubscriberInterface } from 'typeorm'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { ChargeSchema, Charge as MikroCharge } from '../../docs/samples/orm-mikro-orm-entity.ts'
import { Charge } from '../../docs/samples/orm-typeorm-entity.ts'
import { PrismaClient } from '../../docs/samples/prisma/generated/client.ts'

let connectionString: string
let pool: pg.Pool
let prisma: PrismaClient
let dataSource: DataSource
let orm: MikroORM
const guards: Guard[] = []

beforeAll(async () => {
  connectionString = (await database()).url
  pool = new pg.Pool({ connectionString, max: 3 })
  await migrate(pool)
  await pool.query('create table charges (order_id text primary key, cents int check (cents > 0))')
  // Prisma's own limit would end every handler here.
  const transactionOptions = { timeout: 20, maxWait: 5_000 }
  prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString }), transactionOptions })
  dataSource = new DataSource({ type: 'postgres', url: connectionString, entities: [Charge] })
  await dataSource.initialize()
  orm = await MikroORM.init({ clientUrl: connectionString, entities: [ChargeSchema] })
})
afterEach(() => Promise.all(guards.splice(0).map((guard) => guard.close())))
afterAll(() => Promise.all([prisma.$disconnect(), dataSource.destroy(), orm.close(), pool.end()]))

/** Delivers one event to a handler, and answers its settlement and what is charged then. */
async function run<Tx>(
  inbox: Inbox<Tx>,
  work: (event: GuardEvent<unknown>, tx: Tx) => Promise<void>,
) {
  const guard = createGuard(
    { consumer: randomUUID(), inbox, logger: silent },
    async (event, { tx }) => work(event, tx),
  )
  guards.push(guard)
  const key = randomUUID()
  const delivery = toDelivery({ key }, { headers: { 'idempotency-key': key } })
  const settlement = await guard.process(delivery)
  const { rows } = await pool.query('select cents from charges where order_id like $1', [`${key}%`])
  const error = 'error' in settlement ? String(settlement.error) : undefined
  return { kind: settlement.kind, error, cents: rows.map((row) => row.cents as number) }
}

describe('Prisma', () => {
  const inbox = (): ReturnType<typeof prismaInbox<PrismaClient>> =>
    prismaInbox(prisma, { connectionString })

  // Red without a limit of the guard's: P2028 after 20 ms.
  it('ends no handler by its own limit, and commits what its models write', async () => {
    const done = await run(inbox(), async ({ key }, tx) => {
      await tx.charge.create({ data: { orderId: key, cents: 1 } })
      await tx.$executeRaw`select pg_sleep(0.1)`
      const { cents } = await tx.charge.findUniqueOrThrow({ where: { orderId: key } })
      await tx.charge.update({ where: { orderId: key }, data: { cents: cents + 1 } })
    })
    expect(done).toEqual({ kind: 'ack', error: undefined, cents: [2] })
  })

  // Red when queries are not watched: Prisma never sends the second one, and the event is done.
  it.each<[string, (key: string, tx: PrismaClient) => unknown]>([
    ['tx.charge.create', (key, tx) => tx.charge.create({ data: { orderId: `${key}2`, cents: 1 } })],
    ['tx.$executeRaw', (_, tx) => tx.$executeRaw`select 1`],
  ])('a handler that does not await %s fails', async (title, forget) => {
    const done = await run(inbox(), async ({ key }, tx) => {
      await tx.charge.create({ data: { orderId: key, cents: 1 } })
      void forget(key, tx as PrismaClient)
    })
    expect(done).toMatchObject({ kind: 'defer', cents: [] })
    expect(done.error).toContain(`\`${title}\` was not awaited`)
  })

  it('sends members of a nested list, steps of a relation and queries awaited twice as they are', async () => {
    const done = await run(inbox(), async ({ key }, tx) => {
      const data = [1, 2].map((n) => ({ orderId: `${key}-${n}`, cents: n }))
      const made = await tx.$transaction(data.map((each) => tx.charge.create({ data: each })))
      expect(made).toEqual(data)
      const query = tx.charge.count({ where: { orderId: { startsWith: key } } })
      expect([await query, await query]).toEqual([2, 2])
      await expect(
        tx.$transaction(async (inner) => {
          await inner.charge.create({ data: { orderId: `${key}-3`, cents: 3 } })
          await inner.charge.create({ data: { orderId: `${key}-3`, cents: 3 } })
        }),
      ).rejects.toMatchObject({ code: 'P2002' })
    })
    expect(done).toEqual({ kind: 'ack', error: undefined, cents: [1, 2] })
  })

  it('keeps the functions that $extends has added in the transaction', async () => {
    const extended = prisma.$extends({
      model: { charge: { double: (cents: number) => Promise.resolve(cents * 2) } },
    })
    const done = await run(prismaInbox(extended, { connectionString }), async ({ key }, tx) => {
      await tx.charge.create({ data: { orderId: key, cents: await tx.charge.double(4) } })
    })
    expect(done).toEqual({ kind: 'ack', error: undefined, cents: [8] })
  })

  it('an error that it wraps is the failure of the handler', async () => {
    const done = await run(inbox(), async ({ key }, tx) => {
      await tx.charge.create({ data: { orderId: key, cents: 0 } })
    })
    expect(done).toMatchObject({ kind: 'defer', cents: [] })
  })
})

describe('TypeORM', () => {
  it('saves entities in the transaction, and tells subscribers how it ended', async () => {
    const ends: string[] = []
    const subscriber: EntitySubscriberInterface = {
      afterTransactionStart: () => void ends.push('start'),
      afterTransactionCommit: () => void ends.push('commit'),
      afterTransactionRollback: () => void ends.push('rollback'),
    }
    dataSource.subscribers.push(subscriber)
    const own = typeormInbox(dataSource, { connectionString })
    const done = await run(own, async ({ key }, tx) => {
      await tx.getRepository(Charge).save({ orderId: key, cents: 1 })
    })
    expect(done).toEqual({ kind: 'ack', error: undefined, cents: [1] })
    const failed = await run(own, async ({ key }, tx) => {
      await tx.getRepository(Charge).save({ orderId: key, cents: 1 })
      throw new Error('no')
    })
    expect(failed).toMatchObject({ kind: 'defer', cents: [] })
    expect(ends).toEqual(['start', 'commit', 'start', 'rollback'])
    dataSource.subscribers.pop()
  })

  it('is refused at start before it is initialized', async () => {
    const other = new DataSource({ type: 'postgres', url: connectionString })
    const opening = typeormInbox(other, { connectionString }).open(registration(systemRuntime))
    await expect(opening).rejects.toThrow('await `dataSource.initialize()`')
  })
})

describe('MikroORM', () => {
  const inbox = (): ReturnType<typeof mikroOrmInbox<MikroORM['em']>> =>
    mikroOrmInbox(orm, { connectionString })

  // Red without the flush before COMMIT: nothing is charged, and the event is done.
  it('writes what a handler has persisted, also what it has changed since', async () => {
    const done = await run(inbox(), async ({ key }, tx) => {
      const charge = tx.create(MikroCharge, { orderId: key, cents: 1 })
      await tx.flush()
      expect(tx.isInTransaction()).toBe(true)
      const found: number[] = []
      for await (const each of tx.createQueryBuilder(MikroCharge).where({ orderId: key }).stream())
        found.push(each.cents)
      expect(found).toEqual([1])
      charge.cents = 2
    })
    expect(done).toEqual({ kind: 'ack', error: undefined, cents: [2] })
  })

  it('an error of the flush is the failure of the handler', async () => {
    const done = await run(inbox(), async ({ key }, tx) => {
      tx.create(MikroCharge, { orderId: key, cents: 0 })
    })
    expect(done).toMatchObject({ kind: 'defer', cents: [] })
    expect(done.error).toContain('CheckConstraintViolationException')
  })

  it('gives each event an identity map of its own, and its fork is outside of the transaction', async () => {
    const managers = new Set<unknown>()
    for (let n = 0; n < 2; n += 1) {
      await run(inbox(), async (_event, tx) => {
        managers.add(tx)
        expect(tx.fork().isInTransaction()).toBe(false)
        await expect(tx.begin()).rejects.toThrow('may not send `begin`')
      })
    }
    expect(managers.size).toBe(2)
  })
})
