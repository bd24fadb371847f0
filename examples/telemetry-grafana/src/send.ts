// Sends orders, each of them twice; one in ten can never be charged.
import { SendMessageCommand } from '@aws-sdk/client-sqs'
import { queueUrl, sqs } from './settings.ts'

const orders = Number(process.argv[2] ?? 20)
const QueueUrl = await queueUrl()
for (let n = 1; n <= orders; n += 1) {
  const cents = n % 10 === 0 ? -1 : 100
  const MessageBody = JSON.stringify({ orderId: `order-${n}`, cents })
  for (const _time of ['first', 'second']) {
    await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody }))
  }
}
console.log(`sent ${orders} orders, each twice`)
