import { amqpMessage, fromAmqpMessage } from '@onceward/amqp'
import type { ConsumeMessage } from 'amqplib'
import type { MessageMaker } from '../../fuzz/bytes/message-maker.ts'

/** Messages as amqplib hands them over. */
export const amqpBytes: MessageMaker = {
  toDelivery: (name, content, headers) => {
    const fields = { deliveryTag: 1, redelivered: false, exchange: '', routingKey: name }
    const properties = { headers: Object.fromEntries(headers), messageId: name, deliveryMode: 2 }
    const message = { content, fields: { ...fields, consumerTag: 't' }, properties }
    return fromAmqpMessage(message as unknown as ConsumeMessage, name)
  },
  messageOf: amqpMessage,
}
