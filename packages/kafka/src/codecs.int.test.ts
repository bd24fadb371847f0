// @module-tag nightly

import { until } from '@onceward/testing'
import { skipped } from '@onceward/testing/servers'
import kafkajs, { CompressionTypes, logLevel } from 'kafkajs'
import { afterEach, describe, expect, test } from 'vitest'
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

  // Red when the next consumer starts behind them, and when the reason is only what kafkajs says.
  test('the consumer is replaced again and again with an error that says what to install, and skips none', async () => {
    const { topics } = kit
    const topic = await topics.create(2)
    const ran: string[] = []
    const guard = billing(({ payload }) => void ran.push(payload.key))
    await using consumption = await consumeKafka(topics.client(), guard, { topics: [topic] })
    await topics.send(topic, range(5, 'plain'), () => ({ partition: 0 }))
    await topics.caughtUp(guard.consumer, topic)
    forgetCodec()
    await sendCompressed(topic, range(3, 'packed'), 0)
    const text = /Snappy.*kafkajs-snappy.*CompressionCodecs\[CompressionTypes\.Snappy\]/
    await until(() => text.test(consumption.health().reason ?? ''))
    expect(consumption.health().state).toBe('recovering')
    await topics.send(topic, range(4, 'other'), () => ({ partition: 1 }))
    registerCodec()
    await topics.caughtUp(guard.consumer, topic)
    expect(ran.toSorted()).toEqual(
      [...range(5, 'plain'), ...range(3, 'packed'), ...range(4, 'other')].toSorted(),
    )
    expect(consumption.health()).toMatchObject({ state: 'running' })
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
