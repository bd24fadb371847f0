import { consumeKafka, wrapKafka } from '@onceward/kafka'
import { Kafka, logLevel } from 'kafkajs'
import { consumed, env, guard, until } from './consumed.ts'

const kafka = new Kafka({
  clientId: 'versions',
  brokers: [env('KAFKA_BROKER')],
  logLevel: logLevel.NOTHING,
})
const [topic, dead, wrapped] = ['orders', 'dead', 'wrapped'].map((name) => `${name}-${process.pid}`)
if (!(topic && dead && wrapped)) throw new Error('no topics')
const admin = kafka.admin()
await admin.connect()
await admin.createTopics({
  waitForLeaders: true,
  topics: [{ topic }, { topic: dead }, { topic: wrapped }],
})
const producer = kafka.producer()
await producer.connect()
const send = (to: string, orderId: string): Promise<unknown> =>
  producer.send({ topic: to, messages: [{ value: JSON.stringify({ orderId }) }] })

const groupId = `versions-${process.pid}`
const deadLetter = { producer, topic: dead }
const consumption = await consumeKafka(kafka, guard, { topics: [topic], groupId, deadLetter })
for (const orderId of ['a', 'a', 'b', 'poison']) await send(topic, orderId)
await until(async () => (await consumed()) === 'a,b')
await until(async () =>
  (await admin.fetchTopicOffsets(dead)).some(({ offset }) => Number(offset) > 0),
)
await consumption.drain()
await consumption.stopped

const consumer = kafka.consumer({ groupId: `${groupId}-wrapped` })
await consumer.connect()
await consumer.subscribe({ topic: wrapped, fromBeginning: true })
await consumer.run(wrapKafka(consumer, guard, { deadLetter }))
await send(wrapped, 'c')
await until(async () => (await consumed()) === 'a,b,c')
await consumer.disconnect()
await guard.close()
await producer.disconnect()
await admin.disconnect()
console.log('proved')
process.exit(0)
