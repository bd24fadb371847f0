import { randomUUID } from 'node:crypto'
import { MikroORM } from '@mikro-orm/postgresql'
import { createGuard, type Inbox } from '@onceward/core'
import { toDelivery } from '@onceward/core/memory'
import { migrate } from '@onceward/postgres'
import { drizzleInbox } from '@onceward/postgres/drizzle'
import { knexInbox } from '@onceward/postgres/knex'
import { mikroOrmInbox } from '@onceward/postgres/mikro-orm'
import { postgresJsInbox } from '@onceward/postgres/postgres-js'
import { prismaInbox } from '@onceward/postgres/prisma'
import { typeormInbox } from '@onceward/postgres/typeorm'
import { database } from '@onceward/testing'
import { silent } from '@onceward/testing/conformance'
import { PrismaPg } from '@prisma/adapter-pg'
import { drizzle } from 'drizzle-orm/node-postgres'
import { integer, pgTable, text } from 'drizzle-orm/pg-core'
import createKnex from 'knex'
import pg from 'pg'
import postgres from 'postgres'
import { DataSource } from 'typeorm'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { ChargeSchema, Charge as MikroCharge } from '../../docs/samples/orm-mikro-orm-entity.ts'
import { Charge } from '../../docs/samples/orm-typeorm-entity.ts'
import { PrismaClient } from '../../docs/samples/prisma/generated/client.ts'
import { HABITS, type Habit, ORM_NAMES } from './habits-table.ts'

let connectionString: string
let pool: pg.Pool
const ends: (() => unknown)[] = []

beforeAll(async () => {
  connectionString = (await database()).url
  pool = new pg.Pool({ connectionString, max: 3 })
  ends.push(() => pool.end())
  await migrate(pool)
  await pool.query('create table charges (order_id text, cents int)')
})
afterAll(async () => {
  for (const end of ends.reverse()) await end()
})

/** Charges an order in one way, within a handler. */
type Charging<Tx> = (id: string, tx: Tx) => unknown

/** What a charge of a handler becomes. */
async function habitOf<Tx>(inbox: Inbox<Tx>, charge: Charging<Tx>): Promise<Habit | 'nothing'> {
  let isWarned = false
  const warn = (_: object, message: string): void => {
    isWarned ||= message.startsWith('a handler wrote outside of its transaction')
  }
  const logger = { ...silent, warn }
  const deliver = async (fails: boolean) => {
    const key = randomUUID()
    const guard = createGuard({ consumer: randomUUID(), inbox, logger }, async (_, { tx }) => {
      await charge(key, tx)
      if (fails) throw new Error('the handler fails')
    })
    const delivery = toDelivery({}, { headers: { 'idempotency-key': key } })
    const { kind } = await guard.process(delivery)
    await guard.close()
    const counting = 'select count(*)::int as n from charges where order_id = $1'
    return { kind, n: (await pool.query(counting, [key])).rows[0].n as number }
  }
  const done = await deliver(false)
  if (done.n === 0) return done.kind === 'ack' ? 'nothing' : 'refused'
  const failed = await deliver(true)
  if (failed.n === 0) return 'inside'
  return isWarned ? 'warned' : 'outside'
}

type Plays = Readonly<Record<string, () => Promise<Habit | 'nothing'>>>

function knexPlays(): Plays {
  const knex = createKnex({ client: 'pg', connection: connectionString })
  ends.push(() => knex.destroy())
  const inbox = knexInbox(knex, { connectionString })
  const row = (id: string) => ({ order_id: id, cents: 1 })
  return {
    'a nested transaction of `tx`': () =>
      habitOf(inbox, (id, tx) => tx.transaction((own) => own('charges').insert(row(id)))),
    'a helper that is given the transaction: `transacting(tx)`, `withRepository()`': () =>
      habitOf(inbox, (id, tx) => knex('charges').insert(row(id)).transacting(tx)),
    'the root handle': () => habitOf(inbox, (id) => knex('charges').insert(row(id))),
    'a transaction of the root handle': () =>
      habitOf(inbox, (id) => knex.transaction((own) => own('charges').insert(row(id)))),
  }
}

function drizzlePlays(): Plays {
  const charges = pgTable('charges', { orderId: text('order_id'), cents: integer() })
  const own = new pg.Pool({ connectionString })
  ends.push(() => own.end())
  const db = drizzle(own)
  const inbox = drizzleInbox(db, { connectionString })
  const insert = (on: Pick<typeof db, 'insert'>, orderId: string) =>
    on.insert(charges).values({ orderId, cents: 1 })
  return {
    'a nested transaction of `tx`': () =>
      habitOf(inbox, (id, tx) => tx.transaction((inner) => insert(inner, id))),
    'a nested transaction that asks for another isolation level': () =>
      habitOf(inbox, (id, tx) =>
        (tx as unknown as typeof db).transaction((inner) => insert(inner, id), {
          isolationLevel: 'serializable',
        }),
      ),
    'the root handle': () => habitOf(inbox, (id) => insert(db, id)),
    'a transaction of the root handle': () =>
      habitOf(inbox, (id) => db.transaction((inner) => insert(inner, id))),
  }
}

function postgresJsPlays(): Plays {
  const sql = postgres(connectionString, { onnotice: () => undefined })
  ends.push(() => sql.end({ timeout: 1 }))
  const inbox = postgresJsInbox(sql)
  const insert = (on: postgres.ISql, id: string) => on`insert into charges values (${id}, 1)`
  return {
    'a nested transaction of `tx`': () =>
      habitOf(inbox, (id, tx) => tx.savepoint((inner) => insert(inner, id))),
    'the root handle': () => habitOf(inbox, (id) => insert(sql, id)),
    'a transaction of the root handle': () =>
      habitOf(inbox, (id) => sql.begin((inner) => insert(inner, id))),
  }
}

function prismaPlays(): Plays {
  const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString }) })
  ends.push(() => prisma.$disconnect())
  const options = { connectionString }
  const inbox = prismaInbox(prisma, options)
  const create = (on: Pick<PrismaClient, 'charge'>, orderId: string) =>
    on.charge.create({ data: { orderId, cents: 1 } })
  const plain = prisma.$extends({ query: { $allOperations: ({ args, query }) => query(args) } })
  const listing = prisma.$extends({
    query: {
      $allOperations: async ({ args, query }) =>
        (await prisma.$transaction([prisma.$executeRaw`select 1`, query(args) as never]))[1],
    },
  })
  return {
    'a nested transaction of `tx`': () =>
      habitOf(inbox, (id, tx) => tx.$transaction((inner) => create(inner, id))),
    'a nested transaction that asks for another isolation level': () =>
      habitOf(inbox, (id, tx) =>
        tx.$transaction((inner) => create(inner, id), { isolationLevel: 'Serializable' }),
      ),
    'a list of queries: `tx.$transaction([…])`': () =>
      habitOf(inbox, (id, tx) => tx.$transaction([create(tx, id)])),
    'the root handle': () => habitOf(inbox, (id) => create(prisma, id)),
    'a transaction of the root handle': () =>
      habitOf(inbox, (id) => prisma.$transaction((inner) => create(inner, id))),
    'an extension of queries': () =>
      habitOf(prismaInbox(plain, options), (id, tx) => create(tx as typeof prisma, id)),
    'an extension that calls `prisma.$transaction([…])`, as for row-level security': () =>
      habitOf(prismaInbox(listing, options), (id, tx) => create(tx as typeof prisma, id)),
  }
}

async function typeormPlays(): Promise<Plays> {
  const open = async (options: object): Promise<DataSource> => {
    const common = { type: 'postgres' as const, entities: [Charge], ...options }
    const source = await new DataSource(common).initialize()
    ends.push(() => source.destroy())
    return source
  }
  const source = await open({ url: connectionString })
  const row = (orderId: string) => ({ orderId, cents: 1 })
  const inbox = typeormInbox(source, { connectionString })
  const repository = source.getRepository(Charge)
  /** With a subscriber of its own, while it is played. */
  const subscribed = async (event: string, write: 'after' | 'with'): Promise<Habit | 'nothing'> => {
    const listening = await open({ url: connectionString })
    let order = ''
    listening.subscribers.push({
      [event]: async ({ manager }: { readonly manager: DataSource['manager'] }) => {
        await manager.query('insert into charges values ($1, 1)', [order])
      },
    })
    return habitOf(typeormInbox(listening, { connectionString }), async (id, tx) => {
      order = id
      if (write === 'with') await tx.getRepository(Charge).save(row(randomUUID()))
    })
  }
  return {
    'a nested transaction of `tx`': () =>
      habitOf(inbox, (id, tx) => tx.transaction((inner) => inner.insert(Charge, row(id)))),
    'a nested transaction that asks for another isolation level': () =>
      habitOf(inbox, (id, tx) =>
        tx.transaction('SERIALIZABLE', (inner) => inner.insert(Charge, row(id))),
      ),
    'a helper that is given the transaction: `transacting(tx)`, `withRepository()`': () =>
      habitOf(inbox, (id, tx) => tx.withRepository(repository).insert(row(id))),
    'the root handle': () => habitOf(inbox, (id) => source.manager.insert(Charge, row(id))),
    'a transaction of the root handle': () =>
      habitOf(inbox, (id) => source.transaction((inner) => inner.insert(Charge, row(id)))),
    'a repository of the root handle': () => habitOf(inbox, (id) => repository.insert(row(id))),
    'a listener before the commit': () => subscribed('beforeTransactionCommit', 'after'),
    'a hook of an entity': () => subscribed('beforeInsert', 'with'),
    'a write beside read replicas, and the read of it': async () => {
      const url = connectionString
      // Another connection does not see what is not committed.
      const replication = { master: { url }, slaves: [{ url }] }
      const replicated = await open({ replication })
      return habitOf(typeormInbox(replicated, { connectionString }), async (id, tx) => {
        await tx.insert(Charge, row(id))
        expect(await tx.countBy(Charge, { orderId: id })).toBe(1)
      })
    },
  }
}

async function mikroOrmPlays(): Promise<Plays> {
  const open = async (options: object = {}): Promise<MikroORM> => {
    const orm = await MikroORM.init({
      ...{ clientUrl: connectionString, entities: [ChargeSchema] },
      ...options,
    })
    ends.push(() => orm.close(true))
    return orm
  }
  const orm = await open()
  const inbox = mikroOrmInbox(orm, { connectionString })
  const create = (em: Pick<MikroORM['em'], 'create'>, orderId: string): void =>
    void em.create(MikroCharge, { orderId, cents: 1 })
  const listening = async (event: 'afterCreate' | 'beforeTransactionCommit') => {
    const own = await open()
    let order = ''
    own.em.getEventManager().registerSubscriber({
      [event]: async ({ em }: { readonly em: MikroORM['em'] }) => {
        await em.execute('insert into charges values (?, 1)', [order])
      },
    })
    return habitOf(mikroOrmInbox(own, { connectionString }), (id, tx) => {
      order = id
      create(tx, randomUUID())
    })
  }
  return {
    'a nested transaction of `tx`': () =>
      habitOf(inbox, (id, tx) => tx.transactional((inner) => create(inner, id))),
    'a nested transaction that asks for another isolation level': () =>
      habitOf(inbox, (id, tx) =>
        tx.transactional((inner) => create(inner, id), { isolationLevel: 'serializable' as never }),
      ),
    'the root handle': () => habitOf(inbox, (id) => create(orm.em, id)),
    'a transaction of the root handle': () =>
      habitOf(inbox, (id) => orm.em.transactional((inner) => create(inner, id))),
    'a repository of the root handle': () =>
      habitOf(inbox, (id) => orm.em.getRepository(MikroCharge).insert({ orderId: id, cents: 1 })),
    'a fork: `orm.em.fork()`, `tx.fork()`': () =>
      habitOf(inbox, async (id) => {
        const fork = orm.em.fork()
        create(fork, id)
        await fork.flush()
      }),
    'a listener before the commit': () => listening('beforeTransactionCommit'),
    'a hook of an entity': () => listening('afterCreate'),
    'a write beside read replicas, and the read of it': async () => {
      const replicated = await open({ replicas: [{ name: 'replica' }] })
      return habitOf(mikroOrmInbox(replicated, { connectionString }), async (id, tx) => {
        create(tx, id)
        await tx.flush()
        expect(await tx.count(MikroCharge, { orderId: id })).toBe(1)
      })
    },
  }
}

it('each cell of the table of docs/orms.md is what is played', async () => {
  const plays: Readonly<Record<(typeof ORM_NAMES)[number], Plays>> = {
    Knex: knexPlays(),
    Drizzle: drizzlePlays(),
    'postgres.js': postgresJsPlays(),
    Prisma: prismaPlays(),
    TypeORM: await typeormPlays(),
    MikroORM: await mikroOrmPlays(),
  }
  const found: Record<string, Record<string, Habit | 'nothing'>> = {}
  for (const habit of Object.keys(HABITS)) {
    const played: Record<string, Habit | 'nothing'> = {}
    for (const name of ORM_NAMES) {
      const play = plays[name][habit]
      if (play !== undefined) played[name] = await play()
    }
    found[habit] = played
  }
  expect(found).toEqual(HABITS)
  // No play is without its row.
  const rows = new Set(Object.values(plays).flatMap((each) => Object.keys(each)))
  expect([...rows].sort()).toEqual(Object.keys(HABITS).sort())
})
