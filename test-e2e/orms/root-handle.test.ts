import { randomUUID } from 'node:crypto'
import { MikroORM } from '@mikro-orm/postgresql'
import type { Inbox } from '@onceward/core'
import { knexInbox } from '@onceward/postgres/knex'
import { mikroOrmInbox } from '@onceward/postgres/mikro-orm'
import { typeormInbox } from '@onceward/postgres/typeorm'
import createKnex, { type Knex } from 'knex'
import { DataSource } from 'typeorm'
import { describe, expect, it } from 'vitest'
import { ChargeSchema, Charge as MikroCharge } from '../../docs/samples/orm-mikro-orm-entity.ts'
import { Charge } from '../../docs/samples/orm-typeorm-entity.ts'
import { closeGuards, prepareCharging, run, type Work, warnings } from './charging.ts'

let connectionString: string
prepareCharging((url) => {
  connectionString = url
})

// Red before: nothing is said, or that `tx` is not used, after ten events.
describe('the first write of a handler over the root handle is said, with the id of its event', () => {
  /** A write of the transaction is nothing to say, and a second one is not said again. */
  async function warned<Tx>(inbox: Inbox<Tx>, own: Work<Tx>, root: (key: string) => unknown) {
    await run(inbox, own)
    expect(warnings).toEqual([])
    const ids: string[] = []
    const work: Work<Tx> = async (event, context) => {
      ids.push(event.idempotencyKey)
      await own(event, context)
      await root(event.key)
    }
    await run(inbox, work, { count: 2 })
    // Outside of a run, the root handle is free.
    await root(randomUUID())
    const said = expect.stringMatching(/^a handler wrote outside/)
    expect(warnings).toEqual([[expect.anything(), said]])
    const [fields] = warnings[0] as [{ readonly eventId: string; readonly statement?: string }]
    expect(ids).toContain(fields.eventId)
    return fields
  }

  it.each<[string, (knex: Knex, key: string) => Promise<unknown>]>([
    ['a statement', (knex, key) => knex('charges').insert({ order_id: key, cents: 1 })],
    [
      'a transaction',
      (knex, key) => knex.transaction((own) => own('charges').insert({ order_id: key, cents: 1 })),
    ],
  ])('Knex: %s', async (_, root) => {
    const knex = createKnex({ client: 'pg', connection: connectionString })
    const { statement } = await warned(
      knexInbox(knex, { connectionString }),
      async ({ key }, { tx }) => {
        await knex('charges').select()
        await tx.transaction((inner) => inner('charges').insert({ order_id: `${key} a`, cents: 1 }))
      },
      (key) => root(knex, key),
    )
    expect(statement).toBe('insert into charges …')
    await closeGuards()
    expect(knex.listenerCount('query')).toBe(0)
    await knex.destroy()
  })

  it('TypeORM', async () => {
    const url = connectionString
    const dataSource = new DataSource({ type: 'postgres', url, entities: [Charge] })
    await dataSource.initialize()
    const repository = dataSource.getRepository(Charge)
    const { statement } = await warned(
      typeormInbox(dataSource, { connectionString }),
      async ({ key }, { tx }) => {
        await repository.find()
        await tx.transaction((inner) => inner.insert(Charge, { orderId: `${key} a`, cents: 1 }))
      },
      (key) => repository.insert({ orderId: key, cents: 1 }),
    )
    expect(statement).toBe('insert into charges …')
    await closeGuards()
    expect(dataSource.subscribers).toEqual([])
    await dataSource.destroy()
  })

  it('MikroORM', async () => {
    const orm = await MikroORM.init({ clientUrl: connectionString, entities: [ChargeSchema] })
    await warned(
      mikroOrmInbox(orm, { connectionString }),
      async ({ key }, { tx }) => {
        await orm.em.fork().find(MikroCharge, {})
        await tx.transactional((inner) => {
          inner.create(MikroCharge, { orderId: `${key} a`, cents: 1 })
        })
      },
      async (key) => {
        const own = orm.em.fork()
        own.create(MikroCharge, { orderId: key, cents: 1 })
        await own.flush()
      },
    )
    await orm.close()
  })
})
