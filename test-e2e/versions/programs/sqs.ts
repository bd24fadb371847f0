import {
  CreateQueueCommand,
  ReceiveMessageCommand,
  SendMessageCommand,
  SQSClient,
} from '@aws-sdk/client-sqs'
import { consumeSqs, receiveAttributes, wrapSqs } from '@onceward/sqs'
import { consumed, env, guard, until } from './consumed.ts'

const client = new SQSClient({
  endpoint: env('SQS_ENDPOINT'),
  region: 'us-east-1',
  credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
})
const create = async (name: string): Promise<string> => {
  const created = await client.send(new CreateQueueCommand({ QueueName: `${name}-${process.pid}` }))
  return new URL(new URL(created.QueueUrl ?? '').pathname, env('SQS_ENDPOINT')).href
}
const queueUrl = await create('orders')
const dead = await create('dead')
const send = (QueueUrl: string, body: object): Promise<unknown> =>
  client.send(new SendMessageCommand({ QueueUrl, MessageBody: JSON.stringify(body) }))

const consumption = await consumeSqs(client, guard, { queueUrl, deadLetter: { queueUrl: dead } })
for (const orderId of ['a', 'a', 'b', 'poison']) await send(queueUrl, { orderId })
await until(async () => (await consumed()) === 'a,b')
const receive = async (QueueUrl: string) =>
  client.send(new ReceiveMessageCommand({ QueueUrl, WaitTimeSeconds: 1, ...receiveAttributes }))
await until(async () => (await receive(dead)).Messages?.[0]?.Body === '{"orderId":"poison"}')
await consumption.drain()
await consumption.stopped

const wrapped = await create('wrapped')
const handle = wrapSqs(client, guard, { queueUrl: wrapped })
await send(wrapped, { orderId: 'c' })
await until(async () => {
  await handle((await receive(wrapped)).Messages)
  return (await consumed()) === 'a,b,c'
})
await guard.close()
client.destroy()
console.log('proved')
process.exit(0)
