import type { Consumer } from '@platformatic/kafka'
import type { Partition } from '../../offsets.ts'

/** The answer to a fetch, which the package does not export by name. */
export type FetchResponse = Awaited<ReturnType<Consumer['fetch']>>

export interface PartitionError extends Partition {
  /** As Kafka numbers errors. */
  readonly code: number
}

/** Which partitions of a fetch were refused; none if the whole request failed. */
export function partitionErrorsOf(
  error: unknown,
  topics: ReadonlyMap<string, string>,
): readonly PartitionError[] {
  const response = responseIn(error) as FetchResponse | undefined
  if (response === undefined || !Array.isArray(response.responses)) return []
  return response.responses.flatMap(({ topicId, partitions }) => {
    const topic = topics.get(topicId)
    if (topic === undefined) return []
    return partitions.flatMap(({ errorCode, partitionIndex }) =>
      errorCode === 0 ? [] : [{ topic, partition: partitionIndex, code: errorCode }],
    )
  })
}

/** The answer of the broker that the client made an error of; of several tries the last one. */
export function responseIn(error: unknown): unknown {
  if (typeof error !== 'object' || error === null) return undefined
  const own: unknown = Reflect.get(error, 'response')
  if (own !== undefined) return own
  const errors: unknown = Reflect.get(error, 'errors')
  return Array.isArray(errors) ? responseIn(errors.at(-1)) : undefined
}
