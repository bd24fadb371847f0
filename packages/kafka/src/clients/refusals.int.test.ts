// @module-tag nightly

import { ConfigurationError } from '@onceward/core'
import { until } from '@onceward/testing'
import { type KafkaConnection, skipped } from '@onceward/testing/servers'
import { AclOperationTypes, AclResourceTypes } from 'kafkajs'
import { describe, expect, test } from 'vitest'
import { CLIENTS, isMissing } from '../fixtures/clients.ts'
import { ADMIN, READER, right, WITH_RIGHTS } from '../fixtures/rights.ts'
import { billing, useKafka } from '../fixtures/use-kafka.ts'
import { type ConsumeKafkaOptions, consumeKafka } from '../index.ts'

const { DESCRIBE, DESCRIBE_CONFIGS, READ } = AclOperationTypes

/** What a user reads when a start cannot work yet, or never. */
describe.skipIf(skipped('kafka'))('a start that Kafka refuses', () => {
  const kit = useKafka(WITH_RIGHTS)

  for (const name of Object.keys(CLIENTS)) {
    describe.skipIf(isMissing(name))(name, () => suite(name))
  }

  function suite(name: string): void {
    const start = (
      over: Partial<KafkaConnection>,
      options: ConsumeKafkaOptions,
      guard = billing(() => undefined),
    ) => {
      const connection = { ...kit.server.connection, ...over }
      return consumeKafka(CLIENTS[name]?.(connection) as never, guard, options)
    }
    const as = ({ username, password }: typeof READER): Partial<KafkaConnection> => ({
      sasl: { mechanism: 'plain', username, password },
    })

    test('waits for a broker that cannot be reached, and says so', async () => {
      const consumption = await start({ brokers: ['127.0.0.1:1'] }, { topics: ['orders'] })
      expect(consumption.health()).toMatchObject({
        state: 'recovering',
        reason: expect.stringMatching(/connect|ECONNREFUSED|refused/i),
      })
      await consumption.drain()
    })

    test('waits for credentials that are refused, and says so', async ({ skip }) => {
      skip(!kit.server.canKill, 'the server belongs to the user')
      const over = as({ ...ADMIN, password: 'wrong' })
      const consumption = await start(over, { topics: ['orders'] })
      expect(consumption.health()).toMatchObject({
        state: 'recovering',
        reason: expect.stringMatching(/authenticat.*Check the user, the password/i),
      })
      await consumption.drain()
    })

    test('is refused with the name of a topic that does not exist', async () => {
      const topic = await kit.topics.create()
      const starting = start({}, { topics: [topic, 'no-such-topic'] })
      await expect(starting).rejects.toThrow(ConfigurationError)
      await expect(starting).rejects.toThrow(/'no-such-topic', does not exist .* Create it/)
    })

    test('waits for the right to Read its topic, which is named, and begins with it', async ({
      skip,
    }) => {
      skip(!kit.server.canKill, 'the server belongs to the user')
      const { topics } = kit
      const topic = await topics.create()
      await topics.send(topic, ['one'])
      const ran: string[] = []
      const guard = billing(({ payload }) => void ran.push(payload.key))
      const group = right(AclResourceTypes.GROUP, guard.consumer, READ)
      await topics.admin.createAcls({ acl: [group] })
      await using consumption = await start(as(READER), { topics: [topic] }, guard)
      const reason = expect.stringContaining(`may not describe these topics: ${topic}. Allow Read`)
      expect(consumption.health()).toMatchObject({ state: 'recovering', reason })
      const acl = [READ, DESCRIBE, DESCRIBE_CONFIGS].map((operation) =>
        right(AclResourceTypes.TOPIC, topic, operation),
      )
      await topics.admin.createAcls({ acl })
      await until(() => ran.length === 1)
    })

    test('waits for the right to Read its group, and says so', async ({ skip }) => {
      skip(!kit.server.canKill, 'the server belongs to the user')
      const { topics } = kit
      const topic = await topics.create()
      const acl = [READ, DESCRIBE, DESCRIBE_CONFIGS].map((operation) =>
        right(AclResourceTypes.TOPIC, topic, operation),
      )
      await topics.admin.createAcls({ acl })
      await using consumption = await start(as(READER), { topics: [topic] })
      await until(() => consumption.health().state === 'recovering')
      expect(consumption.health().reason).toMatch(/group.*(authoriz|Read and Describe)/i)
    })
  }
})
