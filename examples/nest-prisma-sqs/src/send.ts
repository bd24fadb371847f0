// Sends orders, each of them twice, as a producer does that restarts before it knows what it has sent.
import { SendMessageBatchCommand } from '@aws-sdk/client-sqs'
import { queueUrl, sqs } from './settings.ts'

const BATCH = 10
const orders = Number(process.argv[2] ?? 20)
const QueueUrl = await queueUrl()
const entries = Array.from({ length: orders }, (_, n) => ({
  Id: `${n}`,
  MessageBody: JSON.stringify({ orderId: `order-${n + 1}`, accountId: 1, cents: 100 }),
}))
for (const _time of ['first', 'second']) {
  for (let from = 0; from < orders; from += BATCH) {
    const Entries = entries.slice(from, from + BATCH)
    const { Failed = [] } = await sqs.send(new SendMessageBatchCommand({ QueueUrl, Entries }))
    if (Failed.length > 0) throw new Error(`${Failed.length} messages were not sent`)
  }
}
console.log(`sent ${orders} orders, each twice`)
