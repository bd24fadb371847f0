// @module-tag nightly

import { until } from '@onceward/testing'
import { skipped } from '@onceward/testing/servers'
import { describe, expect, test } from 'vitest'
import { isConfluentBuilt } from '../../fixtures/confluent-built.ts'
import { billing, range, useKafka } from '../../fixtures/use-kafka.ts'
import { consumeKafka } from '../../index.ts'
import { confluent } from './index.ts'

const PROTOCOLS = ['classic', 'consumer'] as const

describe.skipIf(skipped('kafka') || !isConfluentBuilt())('confluent during an outage', () => {
  const kit = useKafka({})
  const client = (more: Readonly<Record<string, unknown>> = {}) =>
    confluent({ 'bootstrap.servers': kit.server.connection.brokers.join(), ...more })

  test.each(PROTOCOLS)(
    'after SIGKILL and a restart every event has run once: %s',
    async (protocol) => {
      const { server, topics } = kit
      const topic = await topics.create(4)
      const ran: string[] = []
      const guard = billing(({ payload }) => void ran.push(payload.key))
      await using consumption = await consumeKafka(client({ 'group.protocol': protocol }), guard, {
        topics: [topic],
      })
      await topics.send(topic, range(100, 'before'))
      await until(() => ran.length > 10)
      await server.kill('SIGKILL')
      await server.restart()
      await topics.send(topic, range(100, 'after'))
      await topics.caughtUp(guard.consumer, topic)
      expect(ran.toSorted()).toEqual([...range(100, 'after'), ...range(100, 'before')].toSorted())
      await until(() => consumption.health().state === 'running')
    },
    180_000,
  )

  test('a long outage is shown, and a drain during it ends', async () => {
    const { server, topics } = kit
    const topic = await topics.create(1)
    const guard = billing(() => undefined)
    const consumption = await consumeKafka(client(), guard, {
      ...{ topics: [topic], drainMs: 500 },
      // The drain cannot tell the broker. After its restart the broker waits a session for the member.
      consumer: { sessionTimeout: 6_000 },
    })
    await topics.send(topic, ['one'])
    await topics.caughtUp(guard.consumer, topic)
    await server.kill('SIGKILL')
    await until(() => consumption.health().state === 'recovering')
    expect(consumption.health().reason).toMatch(/NETWORK_EXCEPTION|REQUEST_TIMED_OUT|timed out/)
    await consumption.drain()
    await server.restart()
    await until(async () => (await topics.members(guard.consumer)) === 0)
  }, 180_000)
})
