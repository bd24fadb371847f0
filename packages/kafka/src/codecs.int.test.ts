// @module-tag nightly

import { until } from '@onceward/testing'
import { skipped } from '@onceward/testing/servers'
import kafkajs, { CompressionTypes, logLevel } from 'kafkajs'
import { afterEach, describe, expect, test } from 'vitest'
import { onEvent } from './fixtures/topics.ts'
import { billing, range, useKafka } from './fixtures/use-kafka.ts'
import { consumeKafka, wrapKafka } from './index.ts'

const { CompressionCodecs } = kafkajs
const { GZIP, Snappy } = CompressionTypes
const gzip = CompressionCodecs[GZIP]

describe.skipIf(skipped('kafka'))('records that kafkajs cannot decompress', () => {
  const kit = useKafka()

  /** Reading real records, compressed with gzip, fails as reading Snappy without a codec does. They can be written. */
  const forgetCodec = (): void => {
    CompressionCodecs[GZIP] = () => ({ ...gzip(), decompress: CompressionCodecs[Snappy] })
  }
  const registerCodec = (): void => {
    CompressionCodecs[GZIP] = gzip
  }
  afterEach(registerCodec)

  async function sendCompressed(topic: string, keys: readonly string[], partition: number) {
    const messages = keys.map((key) => ({
      ...{ key, partition, value: JSON.stringify({ key }) },
      headers: { 'Idempotency-Key': key },
    }))
    await kit.topics.producer.send({ topic, messages, compression: GZIP })
  }

  function logging() {
    const errors: { readonly fields: Record<string, unknown>; readonly text: string }[] = []
    const ignore = (): void => undefined
    const error = (fields: object, text: string): void =>
      void errors.push({ fields: { ...fields }, text })
    return { errors, logger: { debug: ignore, info: ignore, warn: ignore, error } }
  }

  // Red when the error ends the consumer: it says "Kafka refuses the consumer", and no partition goes on.
  test('their partition waits with an error that says what to install, the others are consumed', async () => {
    const { topics } = kit
    const topic = await topics.create(3)
    const ran: string[] = []
    const { errors, logger } = logging()
    const guard = billing(({ payload }) => void ran.push(payload.key), { logger })
    forgetCodec()
    await sendCompressed(topic, range(3, 'packed'), 1)
    await using consumption = await consumeKafka(topics.client(), guard, { topics: [topic] })
    await topics.send(topic, range(4, 'plain'), () => ({ partition: 0 }))
    await until(() => ran.length === 4)
    const text =
      /^Topic '.*', partition 1, waits at offset 0: .*Snappy.*kafkajs-snappy.*CompressionCodecs\[CompressionTypes\.Snappy\]/
    await until(() => text.test(consumption.health().reason ?? ''))
    expect(consumption.health().state).toBe('running')
    expect(errors).toMatchObject([
      { fields: { topic, partition: 1, offset: '0', err: { code: 'ONCEWARD_CONFIGURATION' } } },
    ])
    await topics.send(topic, range(4, 'more'), () => ({ partition: 2 }))
    await until(() => ran.length === 8)
    expect(await topics.committed(guard.consumer, topic)).toMatchObject({ 1: -1 })
    registerCodec()
    await until(() => ran.length === 11)
    await topics.caughtUp(guard.consumer, topic)
    expect(ran.slice(8)).toEqual(range(3, 'packed'))
    expect(consumption.health().reason).toBeUndefined()
  })

  test('a record that comes later holds its partition at the first one that is not done', async () => {
    const { topics } = kit
    const topic = await topics.create(2)
    const ran: string[] = []
    const guard = billing(({ payload }) => void ran.push(payload.key))
    await using consumption = await consumeKafka(topics.client(), guard, { topics: [topic] })
    await topics.send(topic, range(5, 'plain'), () => ({ partition: 0 }))
    await topics.caughtUp(guard.consumer, topic)
    forgetCodec()
    await sendCompressed(topic, ['packed'], 0)
    await until(
      () => consumption.health().reason?.includes('partition 0, waits at offset 5') === true,
    )
    await topics.send(topic, range(5, 'other'), () => ({ partition: 1 }))
    await until(() => ran.length === 10)
    registerCodec()
    await until(() => ran.length === 11)
    expect(ran.at(-1)).toBe('packed')
  })

  // Red when only the committed offset is checked: the consumer ends again and again until the deferred record is done.
  test('they are found behind a deferred record, past which the partition was fetched', async () => {
    const { topics } = kit
    const topic = await topics.create(2)
    const ran: string[] = []
    let isBad = true
    const guard = billing(
      ({ payload: { key } }) => {
        if (key === 'bad' && isBad) throw new Error('no')
        ran.push(key)
      },
      { retry: { attempts: 1_000, baseMs: 50, maxMs: 500 } },
    )
    const client = topics.client()
    const crashes: unknown[] = []
    onEvent(client, 'CRASH', (event) => void crashes.push(event))
    await using consumption = await consumeKafka(client, guard, {
      topics: [topic],
      consumer: { maxBytesPerPartition: 1_000 },
    })
    const filling = range(20, 'filling')
    await topics.send(topic, ['bad'], () => ({ partition: 0 }))
    for (const key of filling) await topics.send(topic, [key], () => ({ partition: 0 }))
    await until(() => ran.length === filling.length)
    forgetCodec()
    await sendCompressed(topic, ['packed'], 0)
    await until(() => consumption.health().reason?.includes('waits at offset 21') === true)
    await topics.send(topic, range(5, 'other'), () => ({ partition: 1 }))
    await until(() => ran.length === filling.length + 5)
    expect(crashes).toHaveLength(1)
    registerCodec()
    isBad = false
    await topics.caughtUp(guard.consumer, topic)
    expect(ran.toSorted()).toEqual([...filling, ...range(5, 'other'), 'bad', 'packed'].toSorted())
  })

  test('a wrapped consumer ends, and the log says what to install', async () => {
    const { topics } = kit
    const topic = await topics.create(1)
    const { errors, logger } = logging()
    const guard = billing(() => undefined, { logger })
    forgetCodec()
    await sendCompressed(topic, ['packed'], 0)
    const consumer = topics
      .client({ logLevel: logLevel.NOTHING })
      .consumer({ groupId: guard.consumer })
    await consumer.connect()
    await consumer.subscribe({ topics: [topic], fromBeginning: true })
    await consumer.run(wrapKafka(consumer, guard))
    await until(() => errors.length === 1)
    expect(errors[0]?.fields.err).toMatchObject({
      message: expect.stringContaining('kafkajs-snappy'),
    })
    await consumer.disconnect()
    await guard.close()
  })
})
