import { consumeAmqp } from '@onceward/amqp'
import { createGuard, type Guard, type GuardEvent, type HandlerContext } from '@onceward/core'
import { deadLetters, migrate } from '@onceward/postgres'
import { pgInbox } from '@onceward/postgres/pg'
import { database, rabbitmq, skipped, until } from '@onceward/testing'
import { connect } from 'amqplib'
import { Pool, type PoolClient } from 'pg'
import { expect, test } from 'vitest'
import { Broker } from '../../../packages/amqp/src/fixtures/broker.ts'
import { quiet } from '../traps/billing.ts'

type Context = HandlerContext<PoolClient>

// Red when the type is read of the live message alone: the property `type` of AMQP is no header.
test.skipIf(skipped('rabbitmq'))(
  'a type that a rollout does not know is dead-lettered, and runs by its type when the next one replays it',
  async () => {
    const { url } = await database()
    await using server = await rabbitmq()
    await using broker = await Broker.connect(server.connection.url)
    const pool = new Pool({ connectionString: url })
    await migrate(pool)
    await pool.query('create table effects (key text not null, type text not null)')
    const write = async ({ key, type }: GuardEvent<unknown>, { tx }: Context): Promise<void> => {
      await tx.query('insert into effects values ($1, $2)', [key, type])
    }
    let isDown = true
    const flaky = async (event: GuardEvent<unknown>, context: Context): Promise<void> => {
      if (isDown) throw new Error('down')
      await write(event, context)
    }
    const version = (types: readonly string[]): Guard => {
      const routes = types.map((type) => [type, { handler: write }] as const)
      return createGuard({
        ...{ consumer: 'orders', inbox: pgInbox(pool), logger: quiet },
        on: {
          ...Object.fromEntries(routes),
          'order.flaky': { handler: flaky, retry: { attempts: 1 } },
        },
      })
    }
    const effects = async (): Promise<readonly string[]> => {
      const { rows } = await pool.query("select type || ' ' || key as effect from effects")
      return rows.map(({ effect }) => effect).toSorted()
    }
    const letters = async (): Promise<readonly string[]> => {
      const reasons: string[] = []
      for await (const { reason } of deadLetters(pool).list()) reasons.push(reason)
      return reasons.toSorted()
    }

    const queue = await broker.create()
    for (const type of ['order.placed', 'order.new', 'order.flaky'])
      await broker.send(queue, [`${type}-1`], { type })
    const first = version(['order.placed'])
    const open = () => connect(server.connection.url)
    const consumption = await consumeAmqp(open, first, { queue })
    await until(async () => (await letters()).length === 2, { what: 'dead letters' })
    expect(await letters()).toEqual(['attempts-spent', 'unknown-type'])
    await consumption.drain()
    await first.close()
    expect(await effects()).toEqual(['order.placed order.placed-1'])

    isDown = false
    const next = version(['order.placed', 'order.new'])
    await using running = await consumeAmqp(open, next, { queue })
    expect(running.health().state).toBe('running')
    await deadLetters(pool).replay({ all: true })
    await until(async () => (await effects()).length === 3, { what: 'the replays' })
    expect(await effects()).toEqual([
      ...['order.flaky order.flaky-1', 'order.new order.new-1', 'order.placed order.placed-1'],
    ])
    expect(await letters()).toEqual([])
    await running.drain()
    await next.close()
    await pool.end()
  },
)
