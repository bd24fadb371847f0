// @module-tag nightly

import { FatalError } from '@onceward/core'
import { rabbitmq, skipped, until } from '@onceward/testing'
import { erlang, guardOf } from '@onceward/testing/adapter'
import { connect } from 'amqplib'
import { expect, test } from 'vitest'
import { Broker } from './fixtures/broker.ts'
import { assertRetryTopology, consumeAmqp, wrapAmqp } from './index.ts'

const USER =
  'rabbit_auth_backend_internal:add_user(<<"reader">>, <<"right">>, <<"test">>), ' +
  'rabbit_auth_backend_internal:set_permissions(<<"reader">>, <<"/">>, <<".*">>, <<"^$">>, <<".*">>, <<"test">>).'

// Red when a consumer of onceward publishes on the channel of its deliveries, as a wrap must.
test.skipIf(skipped('rabbitmq'))(
  'without the right to write, a dead letter ends the channel of a wrap, and a consumer of onceward continues',
  async () => {
    await using server = await rabbitmq({ native: true })
    const evaluate = erlang(server)
    if (evaluate === undefined) throw new Error('expected a node of our own')
    await evaluate(USER)
    await using broker = await Broker.connect(server.connection.url)
    const reader = new URL(server.connection.url)
    reader.username = 'reader'
    reader.password = 'right'
    const ran: string[] = []
    const guard = guardOf(({ key }) => {
      ran.push(key)
      if (key.startsWith('dead')) throw new FatalError('no such order')
    })
    const [queue, dead] = [await broker.create(), await broker.create()]
    await assertRetryTopology(broker.channel, queue, [1_000])
    const options = { queue, deadLetter: { queue: dead }, retryLevelsMs: [1_000] }
    const connection = await connect(reader.href)
    const channel = await connection.createConfirmChannel()
    const wrapped = wrapAmqp(channel, guard, options)
    await channel.consume(queue, wrapped)
    await broker.send(queue, ['dead'])
    await until(() => wrapped.consumption.health().state === 'stopped')
    await until(async () => (await broker.ready(queue)) === 1)
    await connection.close()

    await using consumption = await consumeAmqp(() => connect(reader.href), guard, options)
    const outages = (): string => JSON.stringify(consumption.health().outages ?? [])
    await until(() => outages().includes('ACCESS_REFUSED'))
    await broker.send(queue, ['fine'])
    await until(() => ran.includes('fine'))
    expect(consumption.health()).toMatchObject({ state: 'running', inFlight: 1 })
    expect(await broker.ready(dead)).toBe(0)
    await guard.close()
  },
  120_000,
)
