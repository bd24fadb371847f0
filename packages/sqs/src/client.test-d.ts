import { type Message, ReceiveMessageCommand, type SQSClient } from '@aws-sdk/client-sqs'
import type { Delivery } from '@onceward/core'
import type { Guard } from '@onceward/core/adapter'
import { Consumer, type ConsumerOptions } from 'sqs-consumer'
import { expectTypeOf } from 'vitest'
import {
  type Consumption,
  consumeSqs,
  fromSqsMessage,
  receiveAttributes,
  type SqsClient,
  sqsMessage,
  wrapSqs,
} from './index.ts'

declare const client: SQSClient
declare const guard: Guard
declare const undefinedOrUrl: { readonly queueUrl: string } | undefined

expectTypeOf(client).toExtend<SqsClient>()
expectTypeOf(fromSqsMessage).toExtend<(message: Message, queueUrl: string) => Delivery>()
expectTypeOf(sqsMessage).toExtend<(delivery: Delivery) => Message | undefined>()
expectTypeOf(consumeSqs).returns.resolves.toEqualTypeOf<Consumption>()

void consumeSqs(client, guard, { queueUrl: 'u', deadLetter: undefinedOrUrl, signal: undefined })
void consumeSqs(client, guard, { queueUrl: 'u', deadLetter: 'redrive', batch: { size: 5 } })
// @ts-expect-error a queue is required
void consumeSqs(client, guard, {})
// @ts-expect-error a wrap polls nothing
wrapSqs(client, guard, { queueUrl: 'u', longPollMs: 5 })

const handle = wrapSqs(client, guard, { queueUrl: 'u' })
expectTypeOf(handle).toExtend<(messages: Message[] | undefined) => Promise<Message[]>>()
expectTypeOf(handle.consumption).toEqualTypeOf<Pick<Consumption, 'health' | 'drain'>>()
expectTypeOf(handle).toExtend<NonNullable<ConsumerOptions['handleMessageBatch']>>()

const input = new ReceiveMessageCommand({ QueueUrl: 'u', ...receiveAttributes })
void client.send(input).then(({ Messages }) => handle(Messages))
Consumer.create({ queueUrl: 'u', sqs: client, handleMessageBatch: handle })
