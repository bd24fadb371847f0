import { handMadeGuard } from '@onceward/testing/adapter'
import { Kafka } from 'kafkajs'
import { expect, test } from 'vitest'
import { consumeKafka } from './consume.ts'
import { wrapKafka } from './wrap.ts'

const { guard } = handMadeGuard()
const client = new Kafka({ brokers: ['127.0.0.1:1'] })

// Red before: the consumer took each TypeError for a broker that is down, and tried for ever.
test.each<[string, unknown]>([
  ['a consumer', client.consumer({ groupId: 'billing' })],
  ['the settings of a client', { brokers: ['127.0.0.1:1'] }],
  ['an address', '127.0.0.1:1'],
  ['nothing', undefined],
])('consumeKafka refuses %s instead of a client, and says what to give', async (_, given) => {
  await expect(consumeKafka(given as never, guard, { topics: ['orders'] })).rejects.toMatchObject({
    code: 'ONCEWARD_CONFIGURATION',
    message: expect.stringMatching(
      /^Expected consumeKafka to get a client of kafkajs, got .*new Kafka/,
    ),
  })
})

// Red before: a TypeError that named neither the function nor the argument.
test.each<[string, unknown]>([
  ['a client', client],
  ['a producer', client.producer()],
  ['nothing', undefined],
])('wrapKafka refuses %s instead of a consumer, and says what to give', (_, given) => {
  expect(() => wrapKafka(given as never, guard)).toThrow(
    /^Expected wrapKafka to get a consumer of kafkajs, got .*kafka\.consumer\(/,
  )
})
