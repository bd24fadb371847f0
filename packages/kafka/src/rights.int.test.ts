// @module-tag nightly

import { FatalError } from '@onceward/core'
import { until } from '@onceward/testing'
import { skipped } from '@onceward/testing/servers'
import { AclOperationTypes, AclResourceTypes } from 'kafkajs'
import { beforeEach, describe, expect, test } from 'vitest'
import { READER, right, WITH_RIGHTS } from './fixtures/rights.ts'
import { billing, useKafka } from './fixtures/use-kafka.ts'
import { consumeKafka } from './index.ts'

const { DESCRIBE, DESCRIBE_CONFIGS, READ } = AclOperationTypes

describe.skipIf(skipped('kafka'))('a Kafka with rights per topic', () => {
  const kit = useKafka(WITH_RIGHTS)

  const allow = (topic: string, ...operations: readonly AclOperationTypes[]) =>
    kit.topics.admin.createAcls({
      acl: operations.map((operation) => right(AclResourceTypes.TOPIC, topic, operation)),
    })

  beforeEach(({ skip }) => skip(!kit.server.canKill, 'the server belongs to the user'))

  /** A consumer of two topics with a record each; it may read the first one, and of the second what is given. */
  async function consuming(...operations: readonly AclOperationTypes[]) {
    const { topics } = kit
    const [orders, refunds] = [await topics.create(1), await topics.create(2)]
    const ran: string[] = []
    const told: string[] = []
    const tell = (fields: object, text: string): void =>
      void told.push(`${text} ${Reflect.get(fields, 'topic') ?? Reflect.get(fields, 'denied')}`)
    const ignore = (): void => undefined
    const logger = { debug: ignore, info: ignore, warn: ignore, error: tell }
    const guard = billing(({ payload }) => void ran.push(payload.key), { logger })
    await topics.admin.createAcls({ acl: [right(AclResourceTypes.GROUP, guard.consumer, READ)] })
    await allow(orders, READ, DESCRIBE_CONFIGS)
    if (operations.length > 0) await allow(refunds, ...operations)
    await topics.send(orders, ['order'])
    await topics.send(refunds, ['refund'])
    const client = topics.client({ sasl: { mechanism: 'plain', ...READER } })
    const consumption = await consumeKafka(client, guard, { topics: [orders, refunds] })
    return { orders, refunds, ran, told, consumption, guard }
  }

  // Red when the error ends the consumer again and again: nothing is consumed, and nothing names the topic.
  test('a topic that the client may not describe is named and waits, and the others are consumed', async () => {
    const { topics } = kit
    const { orders, refunds, ran, told, guard, ...rest } = await consuming()
    await using consumption = rest.consumption
    await until(() => ran.length === 1)
    await until(() => consumption.health().reason?.includes(refunds) === true)
    expect(consumption.health().state).toBe('running')
    const text = 'topics are not consumed, because this client may not describe them'
    expect(told).toEqual([`${text} ${refunds}`])
    await topics.send(orders, ['another'])
    await topics.caughtUp(guard.consumer, orders)
    await allow(refunds, READ, DESCRIBE_CONFIGS)
    await until(() => ran.length === 3, { deadlineMs: 30_000 })
    await topics.caughtUp(guard.consumer, refunds)
    expect(ran).toEqual(['order', 'another', 'refund'])
    await until(() => consumption.health().reason === undefined)
  })

  // Red when the next consumer starts behind what could not be read.
  test('a topic that may only be described ends the consumer with an error, until it may be read', async () => {
    const { topics } = kit
    const { refunds, ran, guard, orders, ...rest } = await consuming(DESCRIBE, DESCRIBE_CONFIGS)
    await using consumption = rest.consumption
    await until(() => consumption.health().reason?.includes('check the rights') === true)
    expect(consumption.health().state).toBe('recovering')
    await allow(refunds, READ)
    await topics.caughtUp(guard.consumer, refunds)
    await topics.caughtUp(guard.consumer, orders)
    expect(ran.toSorted()).toEqual(['order', 'refund'])
  })

  // Red when only the member that gets nothing could know it: both are healthy, and no log says anything.
  test('a leader that may not describe a topic of another member says that nobody gets it', async () => {
    const { topics } = kit
    const { orders, refunds, told, guard, ...rest } = await consuming(READ, DESCRIBE_CONFIGS)
    await rest.consumption.drain()
    await topics.admin.deleteAcls({ filters: [right(AclResourceTypes.TOPIC, refunds, READ)] })
    told.length = 0
    const client = topics.client({ sasl: { mechanism: 'plain', ...READER } })
    await using _leader = await consumeKafka(client, guard, { topics: [orders] })
    await using _member = await consumeKafka(topics.client(), guard, { topics: [orders, refunds] })
    const text =
      'topics of other members are not assigned, because this client may not describe them'
    await until(() => told.includes(`${text} ${refunds}`))
  })

  // Red when the check fails for want of rights: the consumer never starts, and nothing names the topic.
  test('a dead-letter topic that only its producer may describe gets the dead letters', async () => {
    const { topics } = kit
    const [orders, dead] = [await topics.create(1), await topics.create(1)]
    const warned: unknown[] = []
    const ignore = (): void => undefined
    const warn = (fields: object): void => void warned.push(Reflect.get(fields, 'topics'))
    const guard = billing(
      () => {
        throw new FatalError('no')
      },
      { logger: { debug: ignore, info: ignore, warn, error: ignore } },
    )
    await topics.admin.createAcls({ acl: [right(AclResourceTypes.GROUP, guard.consumer, READ)] })
    await allow(orders, READ, DESCRIBE_CONFIGS)
    const client = topics.client({ sasl: { mechanism: 'plain', ...READER } })
    await using _consumption = await consumeKafka(client, guard, {
      topics: [orders],
      deadLetter: { producer: topics.producer, topic: dead },
    })
    expect(warned).toContainEqual([dead])
    await topics.send(orders, ['one'])
    expect((await topics.read(dead, 1)).map(({ key }) => String(key))).toEqual(['one'])
  })
})
