import { randomUUID } from 'node:crypto'
import type { Message, SendMessageBatchRequestEntry } from '@aws-sdk/client-sqs'
import type { Order } from '../load/effects.ts'

/** How long Redis keeps what is set by message or by event: longer than a run. */
export const REMEMBERED_S = 3_600

/** The same message for all contestants, with the fields that any of them needs. */
export interface OrderMessage extends Order {
  readonly id: string
  readonly type: 'order.placed'
  readonly timestamp: string
  readonly deduplicationId: string
  readonly deduplicationOptions: Readonly<Record<string, number>>
}

/** @param hiddenMs - The visibility timeout, which is also how long a lock of message-queue-toolkit lasts. */
export function newOrder(hiddenMs: number): OrderMessage {
  const id = randomUUID()
  const lockTimeoutSeconds = hiddenMs / 1_000
  return {
    id,
    type: 'order.placed',
    timestamp: new Date().toISOString(),
    deduplicationId: id,
    deduplicationOptions: {
      deduplicationWindowSeconds: REMEMBERED_S,
      lockTimeoutSeconds,
      acquireTimeoutSeconds: lockTimeoutSeconds,
      refreshIntervalSeconds: lockTimeoutSeconds / 3,
    },
    orderId: id,
    cents: 1_999,
  }
}

export function toEntry(order: OrderMessage, index: number): SendMessageBatchRequestEntry {
  return {
    Id: String(index),
    MessageBody: JSON.stringify(order),
    MessageAttributes: attributesOf(order),
  }
}

/** A received message, as SQS returns it. */
export function toMessage(order: OrderMessage, number: number): Message {
  return {
    MessageId: String(number),
    ReceiptHandle: String(number),
    Body: JSON.stringify(order),
    Attributes: { ApproximateReceiveCount: '1', SentTimestamp: String(Date.now()) },
    MessageAttributes: attributesOf(order),
  }
}

export function toOrder({ Body = '' }: Message): OrderMessage {
  return JSON.parse(Body)
}

const attributesOf = (order: OrderMessage) => ({
  'idempotency-key': { DataType: 'String', StringValue: order.orderId },
})
