import { fromAmqpMessage } from '@onceward/amqp'
import { createGuard, type Delivery } from '@onceward/core'
import { memoryInbox } from '@onceward/core/memory'
import { fromKafkaMessage } from '@onceward/kafka'
import { traced } from '@onceward/otel'
import { fromSqsMessage } from '@onceward/sqs'
import { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace'
import type { ConsumeMessage } from 'amqplib'
import { expect, test } from 'vitest'

const [TRACE, SPAN] = ['0af7651916cd43dd8448eb211c80319c', 'b7ad6b7169203331']
const TRACEPARENT = `00-${TRACE}-${SPAN}-01`
const QUEUE_URL = 'https://sqs.eu-west-1.amazonaws.com/123456789012/orders'

const headers = (traceparent: unknown) => ({ 'idempotency-key': 'k', traceparent })

function fromKafka(traceparent: string | Buffer): Delivery {
  const message = {
    ...{ key: null, value: Buffer.from('{}'), timestamp: '0', attributes: 0, offset: '7' },
    headers: headers(traceparent) as Record<string, string | Buffer>,
  }
  return fromKafkaMessage({ topic: 'orders', partition: 2, message })
}

function fromSqs(traceparent: string | Buffer): Delivery {
  const isText = typeof traceparent === 'string'
  return fromSqsMessage(
    {
      ...{ MessageId: 'm', ReceiptHandle: 'r', Body: '{}' },
      Attributes: { ApproximateReceiveCount: '1', SentTimestamp: '0' },
      MessageAttributes: {
        'idempotency-key': { DataType: 'String', StringValue: 'k' },
        traceparent: isText
          ? { DataType: 'String', StringValue: traceparent }
          : { DataType: 'Binary', BinaryValue: traceparent },
      },
    },
    QUEUE_URL,
  )
}

function fromAmqp(traceparent: string | Buffer): Delivery {
  const fields = { redelivered: false, exchange: '', routingKey: 'orders', deliveryTag: 1 }
  const message = {
    ...{ content: Buffer.from('{}'), fields: { ...fields, consumerTag: 'c' } },
    properties: { headers: headers(traceparent) },
  }
  return fromAmqpMessage(message as unknown as ConsumeMessage, 'orders')
}

test.each([
  ['kafka', fromKafka],
  ['aws.sqs', fromSqs],
  ['rabbitmq', fromAmqp],
])(
  'a span of %s is linked to its producer, whether the context is text or bytes',
  async (system, from) => {
    const exporter = new InMemorySpanExporter()
    const tracerProvider = new TracerProvider({
      spanProcessors: [new SimpleSpanProcessor({ exporter })],
    })
    for (const traceparent of [TRACEPARENT, Buffer.from(TRACEPARENT)]) {
      const handler = traced(() => undefined, { tracerProvider })
      const guard = createGuard({ consumer: 'billing', inbox: memoryInbox() }, handler)
      expect(await guard.process(from(traceparent))).toEqual({ kind: 'ack', by: 'processed' })
      await guard.close()
    }
    const spans = exporter.getFinishedSpans()
    expect(spans).toHaveLength(2)
    for (const { attributes, links, name } of spans) {
      expect(name).toBe('process orders')
      expect(attributes['messaging.system.name']).toBe(system)
      expect(links.map(({ context: { spanId, traceId } }) => [traceId, spanId])).toEqual([
        [TRACE, SPAN],
      ])
    }
  },
)
