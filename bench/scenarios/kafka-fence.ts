import { createBatchGuard, createGuard, type Guard, type GuardEvent } from '@onceward/core'
import { consumeKafka } from '@onceward/kafka'
import { pgInbox } from '@onceward/postgres/pg'
import type { EachBatchPayload } from 'kafkajs'
import type { PoolClient } from 'pg'
import { inTransaction, type Order, write, writeAll } from '../load/effects.ts'
import { type Testbed, unique, watched } from '../load/kafka-testbed.ts'
import { countingObserver, type Observer, QUIET } from '../runner/observer.ts'
import { CONCURRENCY, type Contestant, ratioOf } from '../runner/rounds.ts'
import { Stopwatch } from '../runner/stopwatch.ts'

/** Records of one transaction, as the guard has them. */
const BATCH = 100
/** As many as the topic has: one transaction of each is open. */
const PARTITIONS = 4
/** In rounds of the usual size. */
const LENGTHS = { bulk: 50, batch: 25 } as const

type Kind = keyof typeof LENGTHS
type Work = (tx: PoolClient, orders: readonly Order[]) => Promise<void>

const WORK: Readonly<Record<Kind, Work>> = {
  bulk: writeAll,
  batch: async (tx, orders) => {
    for (const order of orders) await write(tx, order)
  },
}

/** Offsets as identity beside the same loop and the same transactions by hand. */
export const fenceContestants = (testbed: Testbed): readonly Contestant[] =>
  (['bulk', 'batch'] as const).flatMap((kind) => [
    contestant(testbed, `unguarded-${kind}`, kind, byHand),
    contestant(testbed, `fenced-${kind}`, kind, fenced),
  ])

export const fenceRatios = (
  rates: ReadonlyMap<string, readonly number[]>,
): Readonly<Record<string, number>> => ({
  'fenced-bulk': ratioOf(rates, 'fenced-bulk', 'unguarded-bulk'),
  'fenced-batch': ratioOf(rates, 'fenced-batch', 'unguarded-batch'),
})

export const FENCE_GOALS = [
  { name: 'fenced-bulk', least: 0.8 },
  { name: 'fenced-batch', least: 0.9 },
] as const

interface Round {
  readonly testbed: Testbed
  readonly topic: string
  readonly watch: Stopwatch
  readonly kind: Kind
}

function contestant(
  testbed: Testbed,
  name: string,
  kind: Kind,
  run: (round: Round) => Promise<void>,
): Contestant {
  return {
    ...{ name, factor: LENGTHS[kind] },
    prepare: async (events) => {
      const topic = await testbed.topicOf(events)
      const watch = new Stopwatch(events)
      return async () => {
        await run({ testbed, topic, watch, kind })
        return watch.took
      }
    },
  }
}

async function byHand({ testbed, topic, watch, kind }: Round): Promise<void> {
  const consumer = watched(testbed.kafka, watch).consumer({ groupId: unique() })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  const eachBatch = async (payload: EachBatchPayload): Promise<void> => {
    const { messages } = payload.batch
    for (let from = 0; from < messages.length; from += BATCH) {
      const slice = messages.slice(from, from + BATCH)
      const orders = slice.map(({ value }): Order => JSON.parse(String(value)))
      await inTransaction(testbed.pool, (tx) => WORK[kind](tx, orders))
      watch.count(slice.length)
      await payload.heartbeat()
    }
  }
  await consumer.run({ eachBatch, partitionsConsumedConcurrently: PARTITIONS })
  await watch.took
  await consumer.disconnect()
}

async function fenced({ testbed, topic, watch, kind }: Round): Promise<void> {
  const guard = guardOf(testbed, kind, countingObserver('processed', watch))
  const consumption = await consumeKafka(watched(testbed.kafka, watch), guard, {
    ...{ topics: [topic], groupId: unique(), fromBeginning: true, identity: 'offsets' },
  })
  await watch.took
  await consumption.drain()
  await guard.close()
}

function guardOf({ databaseUrl: connectionString }: Testbed, kind: Kind, observe: Observer): Guard {
  const inbox = pgInbox({ connectionString })
  const common = { consumer: unique(), inbox, concurrency: CONCURRENCY, logger: QUIET, observe }
  if (kind === 'batch') {
    return createGuard(
      { ...common, transaction: 'batch' },
      ({ payload }: GuardEvent<Order>, { tx }) => write(tx, payload),
    )
  }
  return createBatchGuard(common, (events: readonly GuardEvent<Order>[], { tx }) =>
    writeAll(
      tx,
      events.map(({ payload }) => payload),
    ),
  )
}
