// Sends orders, each of them twice, as a producer does that missed a confirm.
import { connect } from 'amqplib'
import { queue, rabbitUrl } from './settings.ts'

const orders = Number(process.argv[2] ?? 20)
const connection = await connect(rabbitUrl)
const channel = await connection.createConfirmChannel()
for (let n = 1; n <= orders; n += 1) {
  const order = Buffer.from(JSON.stringify({ orderId: `order-${n}`, accountId: 1, cents: 100 }))
  for (const _time of ['first', 'second']) channel.sendToQueue(queue, order, { persistent: true })
}
await channel.waitForConfirms()
await connection.close()
console.log(`sent ${orders} orders, each twice`)
