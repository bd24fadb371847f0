import { consumeAmqp, wrapAmqp } from '@onceward/amqp'
import { connect } from 'amqplib'
import { consumed, env, guard, until } from './consumed.ts'

const queue = `orders-${process.pid}`
const dead = `dead-${process.pid}`
const open = () => connect(env('RABBITMQ_URL'))
const connection = await open()
const channel = await connection.createConfirmChannel()
for (const name of [queue, dead]) await channel.assertQueue(name, { durable: true })
const send = (orderId: string): void => {
  channel.sendToQueue(queue, Buffer.from(JSON.stringify({ orderId })), { persistent: true })
}

const consumption = await consumeAmqp(open, guard, { queue, deadLetter: { queue: dead } })
for (const orderId of ['a', 'a', 'b', 'poison']) send(orderId)
await until(async () => (await consumed()) === 'a,b')
await until(async () => (await channel.get(dead, { noAck: true })) !== false)
await consumption.drain()
await consumption.stopped

await channel.prefetch(20)
const { consumerTag } = await channel.consume(queue, wrapAmqp(channel, guard, { queue }))
send('c')
await until(async () => (await consumed()) === 'a,b,c')
await channel.cancel(consumerTag)
await guard.close()
for (const name of [queue, dead]) await channel.deleteQueue(name)
await connection.close()
console.log('proved')
process.exit(0)
