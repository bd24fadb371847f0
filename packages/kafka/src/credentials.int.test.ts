// @module-tag nightly

import { until } from '@onceward/testing'
import { skipped } from '@onceward/testing/servers'
import { describe, expect, test } from 'vitest'
import { billing, useKafka } from './fixtures/use-kafka.ts'
import { consumeKafka } from './index.ts'

const USER = { username: 'billing', password: 'right' }

describe.skipIf(skipped('kafka'))('a Kafka with authentication', () => {
  const kit = useKafka({ user: USER })

  // Red when a refusal is fatal, or is silent: kafkajs itself gives such a consumer up for good.
  test('health reports refused credentials, and consuming starts once they are right', async ({
    skip,
  }) => {
    const { server, topics } = kit
    skip(!server.canKill, 'the server belongs to the user')
    const topic = await topics.create(1)
    await topics.send(topic, ['one'])
    const sasl = { mechanism: 'plain' as const, ...USER, password: 'wrong' }
    const ran: string[] = []
    const guard = billing(({ payload }) => void ran.push(payload.key))
    await using consumption = await consumeKafka(topics.client({ sasl }), guard, {
      topics: [topic],
    })
    expect(consumption.health()).toMatchObject({ state: 'recovering' })
    expect(consumption.health().reason).toMatch(/KafkaJSSASLAuthenticationError.*authentication/)
    sasl.password = USER.password
    await until(() => ran.length === 1)
    await topics.caughtUp(guard.consumer, topic)
    expect(consumption.health()).toMatchObject({ state: 'running' })
  })

  test('a consumer with refused credentials can be drained', async ({ skip }) => {
    const { server, topics } = kit
    skip(!server.canKill, 'the server belongs to the user')
    const sasl = { mechanism: 'plain' as const, ...USER, password: 'wrong' }
    const consumption = await consumeKafka(
      topics.client({ sasl }),
      billing(() => undefined),
      { topics: ['orders'] },
    )
    await consumption.drain()
    await consumption.stopped
    expect(consumption.health()).toMatchObject({ state: 'stopped', inFlight: 0 })
  })
})
