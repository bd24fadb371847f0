import fc from 'fast-check'
import type { Cluster } from 'kafkajs'
import { expect, test } from 'vitest'
import { hideAborted } from './aborted.ts'

interface Step {
  readonly producer: number
  readonly does: 'send' | 'send outside' | 'commit' | 'abort'
}
interface Logged {
  readonly offset: string
  readonly key: null
  isControlRecord: boolean
  /** Of records since Kafka 0.11. */
  readonly batchContext?: { readonly producerId: string; readonly inTransaction: boolean }
}

/** The log that producers wrote, with every transaction ended, and what Kafka knows about the aborted ones. */
function written(steps: readonly Step[]) {
  const log: Logged[] = []
  const open = new Map<number, number>()
  const aborted: { producerId: string; firstOffset: number; lastOffset: number }[] = []
  const hidden = new Set<string>()
  const producers = [...new Set(steps.map(({ producer }) => producer))]
  const ends = producers.map((producer): Step => ({ producer, does: 'abort' }))
  for (const { producer, does } of [...steps, ...ends]) {
    const isEnd = does === 'commit' || does === 'abort'
    const first = open.get(producer)
    if (isEnd && first === undefined) continue
    const offset = log.length
    const producerId = String(producer)
    const batchContext = { producerId, inTransaction: does !== 'send outside' }
    if (does === 'send outside' && first !== undefined) continue
    if (does === 'send' && first === undefined) open.set(producer, offset)
    log.push({ offset: String(offset), key: null, isControlRecord: isEnd, batchContext })
    if (!isEnd || first === undefined) continue
    open.delete(producer)
    if (does === 'commit') continue
    // Kafka appends a transaction to its list when it ends.
    aborted.push({ producerId, firstOffset: first, lastOffset: offset })
    for (const each of log.slice(first, offset)) {
      if (each.batchContext?.producerId === producerId) hidden.add(each.offset)
    }
  }
  return { log, aborted, hidden }
}

const step = fc.record({
  producer: fc.integer({ min: 1, max: 4 }),
  does: fc.constantFrom<Step['does'][]>('send', 'send', 'send', 'send outside', 'commit', 'abort'),
})

/** A producer whose transaction was aborted commits its next one, and both are in one fetch. */
const SENT_AGAIN = {
  steps: (['send', 'abort', 'send', 'commit'] as const).map((does) => ({ producer: 1, does })),
  from: 0,
  size: 4,
}

test('a fetch of any part of any log has the records of committed transactions, and all control records', async () => {
  const drawn = fc.record({
    steps: fc.array(step, { maxLength: 40 }),
    from: fc.nat(40),
    size: fc.integer({ min: 1, max: 40 }),
  })
  await fc.assert(
    fc.asyncProperty(drawn, async ({ steps, from, size }) => {
      const { aborted, hidden, log } = written(steps)
      const part = log.slice(from, from + size)
      const wanted = part
        .filter(({ isControlRecord, offset }) => !(isControlRecord || hidden.has(offset)))
        .map(({ offset }) => offset)
      const abortedTransactions = aborted
        .filter(({ firstOffset, lastOffset }) => firstOffset < from + size && lastOffset >= from)
        .map(({ firstOffset, producerId }) => ({ producerId, firstOffset: String(firstOffset) }))
      const { messages, ...rest } = await fetchThrough({ messages: part, abortedTransactions })
      expect(messages.map(({ offset }) => offset)).toEqual(part.map(({ offset }) => offset))
      const shown = messages.filter(({ isControlRecord }) => !isControlRecord)
      expect(shown.map(({ offset }) => offset)).toEqual(wanted)
      expect(rest.abortedTransactions).toEqual([])
    }),
    { numRuns: 500, examples: [[SENT_AGAIN]] },
  )
})

interface Part {
  readonly messages: readonly Logged[]
  readonly abortedTransactions: readonly object[] | null
}

/** As a consumer fetches: twice from one broker, which answers the same. */
async function fetchThrough(part: Part): Promise<Part> {
  const broker = Object.create({ fetch: async () => ({ responses: [{ partitions: [part] }] }) })
  const internals = { findBroker: async () => broker }
  const cluster: object = internals
  hideAborted(cluster as Cluster)
  await (await internals.findBroker()).fetch()
  const { responses } = await (await internals.findBroker()).fetch()
  return responses[0].partitions[0]
}

test('without aborted transactions, and without the internals of kafkajs, nothing changes', async () => {
  const { log } = written([
    { producer: 1, does: 'send' },
    { producer: 1, does: 'commit' },
  ])
  for (const abortedTransactions of [null, []]) {
    const part = { messages: log, abortedTransactions }
    expect(await fetchThrough(part)).toBe(part)
    expect(log.map(({ isControlRecord }) => isControlRecord)).toEqual([false, true])
  }
  expect(() => hideAborted(undefined)).not.toThrow()
  expect(() => hideAborted({} as Cluster)).not.toThrow()
})

// Brokers before 0.11, and topics of their message format, have records without a batch.
test('a record of the old message format is shown, in a partition with aborted transactions', async () => {
  const part = {
    messages: [{ offset: '0', key: null, isControlRecord: false }],
    abortedTransactions: [{ producerId: '1', firstOffset: '0' }],
  }
  const { messages } = await fetchThrough(part)
  expect(messages).toMatchObject([{ isControlRecord: false }])
})

// Red when each fetch wraps the last one: the stack grows with every fetch of a consumer.
test('a failed fetch is told once, however often the broker was found before', async () => {
  const gone = new Error('gone')
  const broker = Object.create({ fetch: () => Promise.reject(gone) })
  const internals = { findBroker: async () => broker }
  const told: unknown[] = []
  hideAborted(internals as object as Cluster, (error) => told.push(error))
  await internals.findBroker()
  await expect((await internals.findBroker()).fetch()).rejects.toBe(gone)
  expect(told).toEqual([gone])
})
