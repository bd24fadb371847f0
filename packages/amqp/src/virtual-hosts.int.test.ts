// @module-tag nightly

import { FatalError } from '@onceward/core'
import { memoryInbox } from '@onceward/core/memory'
import { rabbitmq, skipped, until } from '@onceward/testing'
import { erlang, guardOf } from '@onceward/testing/adapter'
import { type ChannelModel, connect } from 'amqplib'
import { expect, test } from 'vitest'
import { Broker } from './fixtures/broker.ts'
import { consumeAmqp, wrapAmqp } from './index.ts'

const OPTIONS = { queue: 'orders', deadLetter: { queue: 'orders.dead' } }

// Red when publishers are registered by the name of their queue alone: the poller takes the latest one.
test.skipIf(skipped('rabbitmq')).each(['consume', 'wrap'] as const)(
  '%s: a dead letter that is replayed and dies again stays in its virtual host, also if another has a queue of that name',
  async (how) => {
    await using server = await rabbitmq({ native: true })
    const evaluate = erlang(server)
    if (evaluate === undefined) throw new Error('expected a node of our own')
    await evaluate(
      'rabbit_vhost:add(<<"re\'funds">>, <<"test">>), ' +
        'rabbit_auth_backend_internal:set_permissions(<<"guest">>, <<"re\'funds">>, <<".*">>, <<".*">>, <<".*">>, <<"test">>).',
    )
    const urls = ['', "/re'funds"].map((path) => `${server.connection.url}${path}`)
    const brokers = await Promise.all(urls.map((url) => Broker.connect(url)))
    for (const { channel } of brokers) {
      for (const queue of ['orders', 'orders.dead']) await channel.assertQueue(queue)
    }
    const inbox = memoryInbox()
    let runs = 0
    const guard = guardOf(
      () => {
        runs += 1
        throw new FatalError('no such order')
      },
      {},
      inbox,
    )
    const connections: ChannelModel[] = []
    const consume = async (url: string): Promise<() => Promise<void>> => {
      if (how === 'consume') {
        const consumption = await consumeAmqp(() => connect(url), guard, OPTIONS)
        return () => consumption.drain()
      }
      const connection = await connect(url)
      connections.push(connection)
      const channel = await connection.createConfirmChannel()
      const wrapped = wrapAmqp(channel, guard, OPTIONS)
      await channel.consume('orders', wrapped)
      return () => wrapped.consumption.drain()
    }
    const drains = [await consume(urls[0] ?? ''), await consume(urls[1] ?? '')]
    await brokers[0]?.send('orders', ['one'])
    const dead = (): Promise<(number | undefined)[]> =>
      Promise.all(brokers.map((broker) => broker.ready('orders.dead')))
    await until(async () => (await dead())[0] === 1)
    // The confirmation is recorded a moment later.
    await until(() => inbox.deadLetters().some(({ ref }) => inbox.replay(ref)))
    await until(
      async () => runs === 2 && (await dead()).reduce((sum = 0, n = 0) => sum + n) === 2,
      {
        deadlineMs: 30_000,
      },
    )
    expect(await dead()).toEqual([2, 0])
    for (const drain of drains) await drain()
    await guard.close()
    for (const connection of connections) await connection.close()
    for (const broker of brokers) await broker[Symbol.asyncDispose]()
  },
  200_000,
)
