import { randomUUID } from 'node:crypto'
import { type EventSubscriber, MikroORM, RequestContext } from '@mikro-orm/postgresql'
import { mikroOrmInbox } from '@onceward/postgres/mikro-orm'
import { prismaInbox } from '@onceward/postgres/prisma'
import { typeormInbox } from '@onceward/postgres/typeorm'
import { PrismaPg } from '@prisma/adapter-pg'
import { DataSource, type EntitySubscriberInterface } from 'typeorm'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { ChargeSchema, Charge as MikroCharge } from '../../docs/samples/orm-mikro-orm-entity.ts'
import { Charge } from '../../docs/samples/orm-typeorm-entity.ts'
import { PrismaClient } from '../../docs/samples/prisma/generated/client.ts'
import { errors, prepareCharging, run, type Work, warnings } from './charging.ts'

let connectionString: string
prepareCharging((url) => {
  connectionString = url
})

const BATCH = { count: 3, transaction: 'batch' } as const
const acked = (count: number): readonly string[] => Array.from({ length: count }, () => 'ack')

describe('MikroORM', () => {
  let orm: MikroORM
  let subscriber: EventSubscriber
  const inbox = (): ReturnType<typeof mikroOrmInbox<MikroORM['em']>> =>
    mikroOrmInbox(orm, { connectionString })

  beforeEach(async () => {
    orm = await MikroORM.init({ clientUrl: connectionString, entities: [ChargeSchema] })
    subscriber = {}
  })
  afterEach(() => orm.close())

  const subscribe = (methods: EventSubscriber): void => {
    Object.assign(subscriber, methods)
    orm.em.getEventManager().registerSubscriber(subscriber)
  }

  // Red when handlers run outside of MikroORM's own context: the event is done, and nothing is charged.
  describe('services that hold `orm.em` write in the transaction of the event', () => {
    const charge = (key: string, name: string): void => {
      orm.em.persist(orm.em.create(MikroCharge, { orderId: `${key} ${name}`, cents: 1 }))
    }
    it.each<[string, (key: string) => unknown]>([
      ['persist', (key) => charge(key, 'a')],
      [
        'persist in a RequestContext',
        (key) => RequestContext.create(orm.em, () => charge(key, 'a')),
      ],
      [
        'flush',
        (key) => {
          charge(key, 'a')
          return orm.em.flush()
        },
      ],
      ['transactional', (key) => orm.em.transactional(() => charge(key, 'a'))],
      [
        'a repository',
        (key) => orm.em.getRepository(MikroCharge).insert({ orderId: `${key} a`, cents: 1 }),
      ],
    ])('%s', async (_, work) => {
      let fails = false
      const handler: Work<MikroORM['em']> = async ({ key }) => {
        await work(key)
        if (fails) throw new Error('no')
      }
      expect(await run(inbox(), handler)).toMatchObject({ kinds: ['ack'], charged: ['a'] })
      fails = true
      expect(await run(inbox(), handler)).toMatchObject({ kinds: ['defer'], charged: [] })
    })

    it('without a warning that `tx` is not used', async () => {
      const many = { count: 12, transaction: 'each' } as const
      const done = await run(inbox(), ({ key }) => charge(key, 'a'), many)
      expect([done.kinds, warnings]).toEqual([acked(12), []])
    })

    it('in each of the events that share a transaction', async () => {
      const done = await run(inbox(), ({ key }) => charge(key, 'a'), BATCH)
      expect(done).toMatchObject({ kinds: acked(3), charged: ['a', 'a', 'a'] })
    })

    it('and are refused once the run has ended', async () => {
      let late: Promise<unknown> | undefined
      const over = Promise.withResolvers<void>()
      await run(inbox(), () => {
        late = over.promise.then(() => orm.em.count(MikroCharge))
      })
      over.resolve()
      await expect(late).rejects.toThrow('The transaction of this event is over')
    })
  })

  it('tells subscribers of the transaction, once for all events that share one', async () => {
    const events: string[] = []
    const note = (event: string) => () => Promise.resolve(void events.push(event))
    subscribe({
      beforeTransactionStart: note('before start'),
      afterTransactionStart: note('after start'),
      afterFlush: note('flush'),
      beforeTransactionCommit: note('before commit'),
      afterTransactionCommit: note('after commit'),
      afterTransactionRollback: note('after rollback'),
    })
    const charge: Work<MikroORM['em']> = ({ key }, { tx }) =>
      void tx.create(MikroCharge, { orderId: `${key} a`, cents: 1 })
    const began = ['before start', 'after start']
    await run(inbox(), charge, BATCH)
    const flushes = ['flush', 'flush', 'flush']
    expect(events).toEqual([...began, ...flushes, 'before commit', 'after commit'])
    events.splice(0)
    await run(inbox(), () => Promise.reject(new Error('no')))
    expect(events).toEqual([...began, 'after rollback'])
  })

  it('what a subscriber writes before the commit is committed, and its error fails the run', async () => {
    let isVetoed = false
    subscribe({
      beforeTransactionCommit: async ({ em, transaction }) => {
        if (isVetoed) throw new Error('vetoed')
        expect(transaction).toBeDefined()
        await em.insert(MikroCharge, { orderId: `${key} b`, cents: 1 })
      },
    })
    let key = ''
    const charge: Work<MikroORM['em']> = (event, { tx }) => {
      key = event.key
      tx.create(MikroCharge, { orderId: `${key} a`, cents: 1 })
    }
    expect(await run(inbox(), charge)).toMatchObject({ kinds: ['ack'], charged: ['a', 'b'] })
    isVetoed = true
    const vetoed = await run(inbox(), charge)
    expect(vetoed).toMatchObject({ kinds: ['defer'], error: 'Error: vetoed', charged: [] })
  })

  it('an error of a subscriber after the commit is logged', async () => {
    subscribe({ afterTransactionCommit: () => Promise.reject(new Error('too late')) })
    expect(await run(inbox(), () => undefined)).toMatchObject({ kinds: ['ack'] })
    expect(JSON.stringify(errors)).toMatch(/too late.*failed after the transaction had ended/)
  })

  // Red when the flush comes behind the run: the outbox refuses, and the event becomes a dead letter.
  it('sends of entity hooks belong to the run of their event', async () => {
    let send = (_id: string): void => undefined
    subscribe({
      getSubscribedEntities: () => [MikroCharge],
      beforeCreate: ({ entity }) => send((entity as MikroCharge).orderId),
    })
    const charge: Work<MikroORM['em']> = ({ key }, { outbox, tx }) => {
      send = (id) => outbox.send({ to: key, payload: id })
      tx.create(MikroCharge, { orderId: `${key} a`, cents: 1 })
    }
    expect(await run(inbox(), charge, BATCH)).toMatchObject({ kinds: acked(3), sends: 3 })
  })
})

describe('Prisma', () => {
  let prisma: PrismaClient
  beforeAll(() => {
    prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString }) })
  })
  afterAll(() => prisma.$disconnect())

  const inbox = (): ReturnType<typeof prismaInbox<PrismaClient>> =>
    prismaInbox(prisma, { connectionString })
  type Tx = Parameters<Parameters<PrismaClient['$transaction']>[0]>[0]
  const create = (tx: Tx | PrismaClient, key: string, name: string) =>
    tx.charge.create({ data: { orderId: `${key} ${name}`, cents: 1 } })

  // Red when Prisma runs the list: over a connection of its own, whose rows stay although the run fails.
  it('a list for `tx.$transaction([…])` is a part of the transaction, and a savepoint', async () => {
    let fails = false
    const work: Work<Tx> = async ({ key }, { tx }) => {
      await create(tx, key, 'a')
      const made = await tx.$transaction([
        create(tx, key, 'b'),
        tx.charge.count(),
        create(tx, key, 'c'),
      ])
      expect(made).toMatchObject([{ orderId: `${key} b` }, expect.any(Number), { cents: 1 }])
      const twice = tx.$transaction([
        create(tx, key, 'd'),
        create(tx, key, 'a'),
        create(tx, key, 'e'),
      ])
      await expect(twice).rejects.toMatchObject({ code: 'P2002' })
      if (fails) throw new Error('no')
    }
    expect(await run(inbox(), work)).toMatchObject({ kinds: ['ack'], charged: ['a', 'b', 'c'] })
    fails = true
    expect(await run(inbox(), work)).toMatchObject({
      kinds: ['defer'],
      error: 'Error: no',
      charged: [],
    })
  })

  it('a list with a query of another client is refused', async () => {
    const done = await run(inbox(), async ({ key }, { tx }) => {
      await tx.$transaction([create(tx, key, 'a'), create(prisma, key, 'b')])
    })
    expect(done).toMatchObject({ kinds: ['defer'], charged: [] })
    expect(done.error).toContain('holds what is no query of `tx`')
  })

  // Red: both rows are committed by the extension's own transaction, and stay although the run fails.
  it('a query that an extension for row-level security puts into a list of the client is refused', async () => {
    const secured = prisma.$extends({
      query: {
        $allModels: {
          $allOperations: async ({ args, query }) => {
            const setting = prisma.$executeRaw`select set_config('app.tenant', '7', true)`
            const [, answer] = await prisma.$transaction([setting, query(args) as never])
            return answer
          },
        },
      },
    })
    const done = await run(prismaInbox(secured, { connectionString }), async ({ key }, { tx }) => {
      await create(tx as unknown as Tx, key, 'a').catch(() => undefined)
    })
    expect(done).toMatchObject({ kinds: ['defer'], charged: [] })
    expect(done.error).toContain('`Charge.create` of the handler was put into `$transaction([…])`')
    // Without the guard, the extension does what it did.
    const key = randomUUID()
    expect(await create(secured as unknown as PrismaClient, key, 'a')).toMatchObject({ cents: 1 })
  })

  // Red: an unhandled rejection, which ends the process.
  it('a query that comes after the run and is not awaited is refused, and logged', async () => {
    let late: ((key: string) => Promise<unknown>) | undefined
    await run(inbox(), (_, { tx }) => {
      late = (key) => {
        void create(tx, key, 'a')
        void tx.$executeRaw`select 1`
        void tx.$transaction([tx.charge.count()])
        return tx.charge.count()
      }
    })
    await expect(late?.(randomUUID())).rejects.toThrow('The transaction of this event is over')
    // One line for the event, however many statements came too late.
    const about = expect.objectContaining({ eventId: expect.any(String) })
    const told = expect.stringContaining('a statement came after the handler had returned')
    expect(errors).toEqual([[about, told]])
  })
})

describe('TypeORM', () => {
  let dataSource: DataSource
  const inbox = (): ReturnType<typeof typeormInbox<DataSource['manager']>> =>
    typeormInbox(dataSource, { connectionString })

  beforeEach(async () => {
    dataSource = new DataSource({ type: 'postgres', url: connectionString, entities: [Charge] })
    await dataSource.initialize()
  })
  afterEach(() => dataSource.destroy())

  const subscribe = (subscriber: EntitySubscriberInterface): void =>
    void dataSource.subscribers.push(subscriber)
  const charging: Work<DataSource['manager']> = async ({ key }, { tx }) => {
    await tx.getRepository(Charge).insert({ orderId: `${key} a`, cents: 1 })
    const { queryRunner } = tx
    if (queryRunner) queryRunner.data = { key }
  }

  // Red when subscribers are told behind the real COMMIT: their rows are refused, and nobody hears of it.
  it('what a subscriber writes and sends before the commit is committed, once for all that share one', async () => {
    subscribe({
      beforeTransactionCommit: async ({ manager, queryRunner }) => {
        const orderId = `${queryRunner.data['key']} b`
        await manager.getRepository(Charge).insert({ orderId, cents: 1 })
        send()
      },
    })
    let send = (): void => undefined
    const work: Work<DataSource['manager']> = async (event, context) => {
      send = () => context.outbox.send({ to: event.key, payload: '' })
      await charging(event, context)
    }
    expect(await run(inbox(), work)).toMatchObject({ charged: ['a', 'b'], sends: 1 })
    expect(await run(inbox(), work, BATCH)).toMatchObject({
      ...{ kinds: acked(3), charged: ['a', 'a', 'a', 'b'], sends: 1 },
    })
  })

  it.each<[keyof EntitySubscriberInterface]>([
    ['beforeTransactionCommit'],
    ['beforeTransactionStart'],
    ['afterTransactionStart'],
  ])('an error of a subscriber in %s fails the run', async (event) => {
    subscribe({ [event]: () => Promise.reject(new Error('vetoed')) })
    const vetoed = await run(inbox(), charging)
    expect(vetoed).toMatchObject({ kinds: ['defer'], error: 'Error: vetoed', charged: [] })
  })

  it('what a subscriber writes after the end is written, and its error is logged', async () => {
    subscribe({
      afterTransactionCommit: async ({ manager, queryRunner }) => {
        const orderId = `${queryRunner.data['key']} b`
        await manager.getRepository(Charge).insert({ orderId, cents: 1 })
        throw new Error('too late')
      },
      afterTransactionRollback: async ({ manager, queryRunner }) => {
        const orderId = `${queryRunner.data['key']} c`
        await manager.getRepository(Charge).insert({ orderId, cents: 1 })
      },
    })
    expect(await run(inbox(), charging)).toMatchObject({ kinds: ['ack'], charged: ['a', 'b'] })
    expect(JSON.stringify(errors)).toMatch(/too late.*failed after the transaction had ended/)
    const failing: Work<DataSource['manager']> = async (event, context) => {
      await charging(event, context)
      throw new Error('no')
    }
    expect(await run(inbox(), failing)).toMatchObject({ kinds: ['defer'], charged: ['c'] })
  })
})
