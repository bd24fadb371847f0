import type { Cluster } from 'kafkajs'
import { abortedAt } from '../aborted.ts'

/** A record as kafkajs decodes it, before it filters. */
interface DecodedRecord {
  readonly offset: string
  isControlRecord: boolean
  /** Of records since Kafka 0.11. */
  readonly batchContext?: { readonly producerId: string; readonly inTransaction: boolean }
}

/** What a fetch brings of one partition. */
interface PartitionData {
  readonly messages: readonly DecodedRecord[]
  /** Null or empty if there are none. */
  abortedTransactions?: Parameters<typeof abortedAt>[0] | null
}

interface FetchResponse {
  readonly responses: readonly { readonly partitions: readonly PartitionData[] }[]
}

/** Methods of kafkajs' cluster and broker that its types leave out. */
interface FetchingBroker {
  fetch(request: unknown): Promise<FetchResponse>
}
interface Internals {
  findBroker?(node: { readonly nodeId: string }): Promise<FetchingBroker>
}

/**
 * Hides the records of aborted transactions that kafkajs lets through when transactions overlap in a partition.
 *
 * kafkajs takes the list of aborted transactions for sorted by first offset, and begins at most one of them with each
 * record. Here the records are marked when they arrive, and kafkajs gets no list.
 *
 * @param onFailed - Gets the errors of fetches. kafkajs handles them too.
 */
export function hideAborted(
  cluster: Cluster | undefined,
  onFailed: (error: unknown) => void = () => undefined,
): void {
  const internals: unknown = cluster
  const { findBroker } = (internals ?? {}) as Internals
  if (findBroker === undefined) return
  const find = async (node: { readonly nodeId: string }): Promise<FetchingBroker> => {
    const broker = await findBroker.call(cluster, node)
    if (!Object.hasOwn(broker, 'fetch')) {
      const fetch = broker.fetch.bind(broker)
      broker.fetch = async (request) => {
        try {
          return withoutAborted(await fetch(request))
        } catch (error) {
          onFailed(error)
          throw error
        }
      }
    }
    return broker
  }
  Object.assign(internals as Internals, { findBroker: find })
}

function withoutAborted(response: FetchResponse): FetchResponse {
  for (const { partitions } of response.responses) partitions.forEach(markAborted)
  return response
}

/** Marked as control records, which kafkajs leaves out after it has moved its position behind them. */
function markAborted(partition: PartitionData): void {
  const { abortedTransactions, messages } = partition
  if (!abortedTransactions?.length) return
  const producersAt = abortedAt(abortedTransactions)
  for (const record of messages) {
    const { batchContext, isControlRecord, offset } = record
    if (batchContext === undefined) continue
    const aborted = producersAt(BigInt(offset))
    const { inTransaction, producerId } = batchContext
    if (!inTransaction || !aborted.has(producerId)) continue
    if (isControlRecord) aborted.delete(producerId)
    else record.isControlRecord = true
  }
  partition.abortedTransactions = []
}
