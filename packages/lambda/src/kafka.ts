import type { Guard } from '@onceward/core/adapter'
import type { KafkaRecord } from '@onceward/kafka/record'
import { fieldsOf } from './fields.ts'
import {
  createInvoke,
  type LambdaContext,
  type Settled,
  throwIfUnfinished,
  wrongEvent,
} from './invocation.ts'
import { toDelivery } from './kafka-delivery.ts'
import type { LambdaKafkaOptions } from './options.ts'

/** What is used of an event of Amazon MSK or a self-managed Kafka. */
export interface LambdaKafkaEvent {
  /** The records by topic and partition, such as `orders-0`. */
  readonly records: Readonly<Record<string, readonly object[]>>
}

/** The records that Lambda must send again. */
export interface KafkaBatchResponse {
  batchItemFailures: { itemIdentifier: { partition: string; offset: number } }[]
}

/** A function for an event source mapping of Kafka. Answers undefined unless partial responses are on. */
export type LambdaKafkaHandler = (
  event: LambdaKafkaEvent,
  context?: LambdaContext,
) => Promise<KafkaBatchResponse | undefined>

/**
 * The guard as a Lambda function behind Kafka, Amazon MSK or self-managed: `export const handler = lambdaKafka(billing)`.
 *
 * Throws if a record is not done, and Lambda sends the whole batch again; what was done then is a duplicate. With
 * `partialResponses` it answers, for each partition, the first record that is not done and everything after it.
 * **The event source mapping must then have `ReportBatchItemFailures`**, which needs provisioned mode; without it the
 * failed records are lost.
 *
 * @throws {@link ConfigurationError} here for options that cannot work; by the function for events of other sources.
 * @see https://docs.aws.amazon.com/lambda/latest/dg/kafka-retry-configurations.html
 *
 * @example
 * ```ts
 * import { lambdaKafka } from '@onceward/lambda'
 *
 * export const handler = lambdaKafka(billing)
 * ```
 */
export function lambdaKafka(guard: Guard, options: LambdaKafkaOptions = {}): LambdaKafkaHandler {
  const invoke = createInvoke('lambdaKafka', guard, options)
  return async (event, context) => {
    const { records } = fieldsOf(event)
    if (typeof records !== 'object' || records === null || Array.isArray(records)) {
      throw wrongEvent(
        'lambdaKafka',
        'an event of Kafka with `records` by topic and partition',
        event,
      )
    }
    const partitions = Object.entries(records)
    if (!partitions.every(([, list]) => Array.isArray(list))) {
      throw wrongEvent('lambdaKafka', 'lists of records by topic and partition')
    }
    const deliveries = partitions.flatMap(([, list]) => (list as unknown[]).map(toDelivery))
    const settled = await invoke(deliveries, context)
    if (options.partialResponses === true) return toResponse(settled)
    throwIfUnfinished(settled)
    return undefined
  }
}

/** Lambda continues at the lowest offset of a partition that is answered, so what follows it is answered too. */
function toResponse(settled: readonly Settled[]): KafkaBatchResponse {
  const first = new Map<string, number>()
  const positions = settled.map((each) => ({ ...positionOf(each), isDone: each.isDone }))
  for (const { isDone, offset, partition } of positions) {
    if (!isDone) first.set(partition, Math.min(offset, first.get(partition) ?? offset))
  }
  const again = positions.filter(
    ({ offset, partition }) => offset >= (first.get(partition) ?? Number.POSITIVE_INFINITY),
  )
  return {
    batchItemFailures: again.map(({ offset, partition }) => ({
      itemIdentifier: { partition, offset },
    })),
  }
}

function positionOf({ delivery }: Settled): {
  readonly partition: string
  readonly offset: number
} {
  const { message, partition, topic } = delivery.raw as KafkaRecord
  return { partition: `${topic}-${partition}`, offset: Number(message.offset) }
}
