// @module-tag nightly

import { until } from '@onceward/testing'
import { skipped } from '@onceward/testing/servers'
import { describe, expect, test } from 'vitest'
import { billing, range, useKafka } from './fixtures/use-kafka.ts'
import { consumeKafka } from './index.ts'

const ignore = (): void => undefined

describe.skipIf(skipped('kafka'))('records that Kafka deletes while they wait', () => {
  const kit = useKafka()

  test('are skipped, the log says so, and every later record is consumed', async () => {
    const { topics } = kit
    const topic = await topics.create(1)
    const said: object[] = []
    const error = (fields: object, text: string): void => void said.push({ text, ...fields })
    const gate = Promise.withResolvers<void>()
    const ran: string[] = []
    const guard = billing(
      async ({ payload: { key } }) => {
        if (key === 'slow') await gate.promise
        ran.push(key)
      },
      { logger: { debug: ignore, info: ignore, warn: ignore, error } },
    )
    // The slow record pauses its partition, at 4 MiB in hand or before, while others wait in the log.
    const padding = 'x'.repeat(40_000)
    const place = (key: string) => ({ value: JSON.stringify({ key, padding }) })
    await topics.send(topic, ['slow'], place)
    for (let part = 0; part < 10; part += 1) await topics.send(topic, range(20, `${part}`), place)
    await using consumption = await consumeKafka(topics.client(), guard, {
      topics: [topic],
      consumer: { maxBytesPerPartition: 200_000 },
    })
    // Resolves while the partition is paused: nothing more is in hand for as long as a beat takes.
    await until(() => ran.length > 100 && consumption.health().inFlight === 1)
    expect(ran.length).toBeLessThan(150)
    await topics.admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '180' }] })
    gate.resolve()
    await topics.send(topic, range(20, 'late'))
    await topics.caughtUp(guard.consumer, topic)

    const rest = [...range(20, '9'), ...range(20, 'late')]
    expect(ran).toEqual(expect.arrayContaining(['slow', ...rest]))
    expect(ran).toHaveLength(new Set(ran).size)
    expect(said).toEqual([expect.objectContaining({ topic, partition: 0 })])
    expect(JSON.stringify(said)).toContain('no longer in its log')
    expect(consumption.health()).toMatchObject({ state: 'running', inFlight: 0 })
  })
})
