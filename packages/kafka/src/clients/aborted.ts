interface AbortedTransaction {
  readonly producerId: string | bigint
  readonly firstOffset: string | bigint
}

/**
 * Answers which producers have an aborted transaction open at an offset. To be asked in the order of the log; a producer is
 * to be deleted from the answer at the mark that ends its transaction.
 *
 * Kafka lists aborted transactions in the order in which they ended.
 *
 * @see https://github.com/apache/kafka/blob/trunk/clients/src/main/java/org/apache/kafka/clients/consumer/internals/CompletedFetch.java
 */
export function abortedAt(
  transactions: readonly AbortedTransaction[],
): (offset: bigint) => Set<string> {
  const open = transactions.toSorted((a, b) =>
    Number(BigInt(a.firstOffset) - BigInt(b.firstOffset)),
  )
  const aborted = new Set<string>()
  return (offset) => {
    for (let [next] = open; next && BigInt(next.firstOffset) <= offset; [next] = open) {
      aborted.add(String(next.producerId))
      open.shift()
    }
    return aborted
  }
}
