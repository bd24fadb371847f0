import type { Delivery } from '@onceward/core'
import {
  type Guard,
  readEnvelope,
  registerEnvelopeReader,
  withEnvelope,
} from '@onceward/core/adapter'
import { type Fields, fieldsOf, toDate } from './fields.ts'
import { createInvoke, type LambdaContext, throwIfUnfinished, wrongEvent } from './invocation.ts'
import type { LambdaSnsOptions } from './options.ts'

/** What is used of an event of SNS. */
export interface LambdaSnsEvent {
  readonly Records: readonly object[]
}

/** A function that an SNS topic invokes. */
export type LambdaSnsHandler = (event: LambdaSnsEvent, context?: LambdaContext) => Promise<void>

/**
 * The guard as a Lambda function that an SNS topic invokes: `export const handler = lambdaSns(billing)`.
 *
 * The body is the message that was published, its attributes are the headers, and the id of SNS is the event key where
 * the publisher set none. Throws if the message is not done, and Lambda tries again, by default twice and for six hours
 * at most: configure an on-failure destination, or put a queue in between.
 *
 * @throws {@link ConfigurationError} here for options that cannot work; by the function for events of other sources.
 *
 * @example
 * ```ts
 * import { lambdaSns } from '@onceward/lambda'
 *
 * export const handler = lambdaSns(billing)
 * ```
 */
export function lambdaSns(guard: Guard, options: LambdaSnsOptions = {}): LambdaSnsHandler {
  const invoke = createInvoke('lambdaSns', guard, options)
  return async (event, context) => {
    const records: unknown = fieldsOf(event)['Records']
    if (!Array.isArray(records)) {
      throw wrongEvent('lambdaSns', 'an event of SNS with `Records`', event)
    }
    throwIfUnfinished(await invoke(records.map(toDelivery), context))
  }
}

function toDelivery(given: unknown): Delivery {
  const record = fieldsOf(given)
  const sns = fieldsOf(record['Sns'])
  const { Message, MessageAttributes, MessageId, Timestamp, TopicArn } = sns
  if (
    typeof Message !== 'string' ||
    typeof TopicArn !== 'string' ||
    typeof MessageId !== 'string'
  ) {
    throw wrongEvent('lambdaSns', 'records of `aws:sns`')
  }
  const headers = toHeaders(fieldsOf(MessageAttributes))
  return withEnvelope(
    {
      body: Buffer.from(Message, 'utf8'),
      headers,
      source: { broker: 'sns', queue: TopicArn, position: MessageId },
      contentType: headers['content-type'],
      contentEncoding: headers['content-encoding'],
      messageId: MessageId,
      producedAt: toDate(Timestamp),
      // Lambda does not say whether it invokes the function for the first time.
      redelivered: true,
      raw: record,
    },
    () => withoutMessage(record, Message),
  )
}

/** Text attributes only. Not by assignment, because an attribute may be called __proto__. */
function toHeaders(attributes: Fields): Delivery['headers'] {
  const entries = Object.entries(attributes).flatMap(([name, attribute]) => {
    const { Type, Value } = fieldsOf(attribute)
    return typeof Value === 'string' && Type !== 'Binary' ? [[name.toLowerCase(), Value]] : []
  })
  return Object.fromEntries(entries) as Delivery['headers']
}

/** The message is stored beside the envelope, as UTF-8, unless UTF-8 cannot hold it. */
function withoutMessage(record: Fields, message: string): object {
  const isBody = message.isWellFormed()
  return {
    isBody,
    record: isBody ? { ...record, Sns: { ...fieldsOf(record['Sns']), Message: '' } } : record,
  }
}

registerEnvelopeReader('sns', ({ body, envelope = new Uint8Array() }): object => {
  const { isBody, record } = readEnvelope(envelope) as {
    readonly isBody: boolean
    readonly record: Fields
  }
  if (!isBody) return record
  return {
    ...record,
    Sns: { ...fieldsOf(record['Sns']), Message: Buffer.from(body).toString('utf8') },
  }
})
