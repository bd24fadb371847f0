// @module-tag nightly

import { until } from '@onceward/testing'
import { skipped } from '@onceward/testing/servers'
import { describe, expect, test } from 'vitest'
import { isConfluentBuilt } from '../fixtures/confluent-built.ts'
import { billing, range, useKafka } from '../fixtures/use-kafka.ts'
import { consumeKafka } from '../index.ts'
import { confluent } from './confluent/index.ts'
import { platformatic } from './platformatic/index.ts'

/** Two members with one static id: a mistake, of which both would tell nothing. kafkajs has no static members. */
describe.skipIf(skipped('kafka'))('two members with one static id', () => {
  const kit = useKafka()

  async function setUp() {
    const { server, topics } = kit
    const topic = await topics.create(2)
    const name = topics.name('billing')
    const ran: string[] = []
    const start = (client: ReturnType<typeof confluent>) =>
      consumeKafka(
        client,
        billing(({ payload }) => void ran.push(payload.key), { consumer: name }),
        { topics: [topic] },
      )
    const brokers = [...server.connection.brokers]
    const ofConfluent = (protocol: 'classic' | 'consumer') =>
      confluent({
        ...{ 'bootstrap.servers': brokers.join(), 'group.protocol': protocol },
        'group.instance.id': 'one',
      })
    return { brokers, name, ofConfluent, ran, start, topic, topics }
  }

  // Red when the older one comes back: each of them ends the other, and for good if a commit is refused first.
  test.skipIf(!isConfluentBuilt())(
    'confluent, classic: the older one ends and says why, and the newer one goes on',
    async () => {
      const { name, ofConfluent, ran, start, topic, topics } = await setUp()
      const older = await start(ofConfluent('classic'))
      const newer = await start(ofConfluent('classic'))
      await expect(older.stopped).rejects.toThrow(/the same `group.instance.id` \(one\)/)
      expect(older.health()).toMatchObject({ state: 'stopped' })
      for (let round = 0; round < 5; round += 1) {
        await topics.send(topic, range(2, `round-${round}`))
        await topics.caughtUp(name, topic)
      }
      expect(new Set(ran).size).toBe(10)
      expect(newer.health()).toMatchObject({ state: 'running' })
      await newer.drain()
    },
    120_000,
  )

  test.skipIf(!isConfluentBuilt())(
    'confluent, KIP-848: the newer one waits and says why',
    async () => {
      const { name, ofConfluent, ran, start, topic, topics } = await setUp()
      const older = await start(ofConfluent('consumer'))
      const newer = await start(ofConfluent('consumer'))
      await until(() => newer.health().reason?.includes('the same `group.instance.id` (one)'))
      await topics.send(topic, ['one'])
      await topics.caughtUp(name, topic)
      expect(older.health().state).toBe('running')
      await older.drain()
      await topics.send(topic, ['two'])
      await topics.caughtUp(name, topic)
      expect(ran).toEqual(['one', 'two'])
      await newer.drain()
    },
    120_000,
  )

  test('platformatic, classic: health says so, while each takes the place of the other', async () => {
    const { brokers, start } = await setUp()
    const client = () =>
      platformatic({ clientId: 'one', bootstrapBrokers: brokers, groupInstanceId: 'one' })
    const members = [await start(client()), await start(client())]
    await until(() =>
      members.every((each) => each.health().reason?.includes('the same `groupInstanceId` (one)')),
    )
    await Promise.all(members.map((each) => each.drain()))
  }, 120_000)
})
