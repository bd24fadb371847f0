// Sends orders, each of them twice, as a producer does that restarts before it knows what it has sent.
import { kafka, topic } from './settings.ts'

const orders = Number(process.argv[2] ?? 20)
const messages = Array.from({ length: orders }, (_, n) => {
  const order = { orderId: `order-${n + 1}`, accountId: 1, cents: 100 }
  return { key: order.orderId, value: JSON.stringify(order) }
})
const producer = kafka.producer()
await producer.connect()
for (const _time of ['first', 'second']) await producer.send({ topic, messages })
await producer.disconnect()
console.log(`sent ${orders} orders, each twice`)
