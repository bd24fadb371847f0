import type { EntityManager as CoreManager, MikroORM } from '@mikro-orm/core'
import type { PostgreSqlDriver, SqlEntityManager } from '@mikro-orm/postgresql'
import { createGuard, type Inbox } from '@onceward/core'
import { mikroOrmInbox } from '@onceward/postgres/mikro-orm'
import { prismaInbox } from '@onceward/postgres/prisma'
import { typeormInbox } from '@onceward/postgres/typeorm'
import type { DataSource, EntityManager } from 'typeorm'
import { expectTypeOf, test } from 'vitest'
import { Charge as MikroCharge } from '../../docs/samples/orm-mikro-orm-entity.ts'
import { Charge } from '../../docs/samples/orm-typeorm-entity.ts'
import type { Prisma, PrismaClient } from '../../docs/samples/prisma/generated/client.ts'

declare const dataSource: DataSource
declare const prisma: PrismaClient
declare const orm: MikroORM<PostgreSqlDriver>
const own = { connectionString: 'postgres://localhost' }

test('a handler gets the transaction client of its own Prisma', () => {
  const inbox = prismaInbox(prisma, own)
  expectTypeOf(inbox).toEqualTypeOf<Inbox<Prisma.TransactionClient>>()
  createGuard({ consumer: 'c', inbox }, async (_event, { tx }) => {
    const charge = await tx.charge.create({ data: { orderId: 'a', cents: 1 } })
    expectTypeOf(charge).toEqualTypeOf<{ orderId: string; cents: number }>()
    const { cents } = await tx.charge.findFirstOrThrow({ select: { cents: true } })
    expectTypeOf(cents).toEqualTypeOf<number>()
    // @ts-expect-error: no such field
    await tx.charge.create({ data: { order: 'a', cents: 1 } })
    // @ts-expect-error: the transaction is the guard's
    await tx.$disconnect()
  })
})

test('a handler gets what $extends has added to its Prisma', () => {
  const extended = prisma.$extends({
    model: { charge: { pay: (orderId: string) => Promise.resolve(orderId.length) } },
    result: { charge: { euros: { needs: { cents: true }, compute: ({ cents }) => cents / 100 } } },
  })
  createGuard({ consumer: 'c', inbox: prismaInbox(extended, own) }, async (_event, { tx }) => {
    expectTypeOf(await tx.charge.pay('a')).toEqualTypeOf<number>()
    expectTypeOf((await tx.charge.findFirstOrThrow()).euros).toEqualTypeOf<number>()
  })
})

test('a handler gets an EntityManager of TypeORM', () => {
  const inbox = typeormInbox(dataSource, own)
  expectTypeOf(inbox).toEqualTypeOf<Inbox<EntityManager>>()
  createGuard({ consumer: 'c', inbox }, async (_event, { tx }) => {
    const [charge] = await tx.getRepository(Charge).find()
    expectTypeOf(charge?.cents).toEqualTypeOf<number | undefined>()
    // @ts-expect-error: no such column
    await tx.getRepository(Charge).insert({ order: 'a' })
  })
})

test('a handler gets the EntityManager of its driver of MikroORM', () => {
  const inbox = mikroOrmInbox(orm, own)
  expectTypeOf(inbox).toExtend<Inbox<CoreManager>>()
  createGuard({ consumer: 'c', inbox }, async (_event, { tx }) => {
    expectTypeOf(tx).toExtend<SqlEntityManager<PostgreSqlDriver>>()
    const charge = await tx.findOneOrFail(MikroCharge, { orderId: 'a' })
    expectTypeOf(charge.cents).toEqualTypeOf<number>()
    // @ts-expect-error: a property is missing
    tx.create(MikroCharge, { orderId: 'a' })
  })
})

test('the own connection must be given', () => {
  // @ts-expect-error: options are missing
  typeormInbox(dataSource)
  // @ts-expect-error: no such option
  prismaInbox(prisma, { ...own, size: 1 })
})
