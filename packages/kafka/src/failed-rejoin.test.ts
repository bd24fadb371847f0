import { setImmediate as turn } from 'node:timers/promises'
import { until } from '@onceward/testing'
import { Clock } from '@onceward/testing/adapter'
import {
  AssignerProtocol,
  type Cluster,
  type Consumer,
  Kafka,
  logLevel,
  PartitionAssigners,
} from 'kafkajs'
import { expect, test } from 'vitest'
import { Watchdog } from './clients/watchdog.ts'
import { message, protocolError } from './fixtures/fetch.ts'
import { ack, setUp } from './fixtures/member.ts'

const TOPIC = 'orders'
const retry = { initialRetryTime: 5, maxRetryTime: 5 }
const closed = Object.assign(new Error('Closed connection'), { retriable: true })

/** A coordinator and leader whose group has one member. It lets each join succeed, also one whose answer is lost. */
class OneBroker {
  /** Before the next join. */
  isRebalancing = false
  losesSync = false
  /** Until the next join. */
  hasForgotten = false
  losesJoin = false
  isEmpty = false
  readonly requests: string[] = []
  #generation = 0
  #offset = 40

  readonly broker = {
    isConnected: () => true,
    joinGroup: async () => {
      const isLost = this.losesJoin
      this.losesJoin = false
      if (isLost) throw closed
      this.hasForgotten = false
      this.isRebalancing = false
      this.#generation += 1
      return { generationId: this.#generation, leaderId: 'other', memberId: 'm-1', members: [] }
    },
    syncGroup: async () => {
      this.requests.push('sync')
      const isLost = this.losesSync
      this.losesSync = false
      if (isLost) throw closed
      const assignment = { version: 0, assignment: { [TOPIC]: [0] }, userData: Buffer.alloc(0) }
      return { memberAssignment: AssignerProtocol.MemberAssignment.encode(assignment) }
    },
    heartbeat: async ({ groupGenerationId }: { readonly groupGenerationId: number }) => {
      if (this.hasForgotten) throw protocolError('UNKNOWN_MEMBER_ID')
      if (this.isRebalancing) throw protocolError('REBALANCE_IN_PROGRESS')
      if (groupGenerationId !== this.#generation) throw protocolError('ILLEGAL_GENERATION')
    },
    offsetFetch: async () => ({
      responses: [{ topic: TOPIC, partitions: [{ partition: 0, offset: '40' }] }],
    }),
    offsetCommit: async () => undefined,
    leaveGroup: async () => undefined,
    fetch: async () => {
      await turn()
      if (this.isEmpty) return { responses: [] }
      const messages = [message(this.#offset, 'key')]
      this.#offset += 1
      const partition = { partition: 0, highWatermark: String(this.#offset), messages }
      return { responses: [{ topicName: TOPIC, partitions: [partition] }] }
    },
  }

  /** What kafkajs calls of its cluster. */
  get cluster(): object {
    const [done, committed] = [async () => undefined, {}]
    return {
      ...{ connect: done, disconnect: done, addMultipleTargetTopics: done },
      ...{ refreshMetadata: done, refreshMetadataIfNecessary: done },
      findGroupCoordinator: async () => this.broker,
      findBroker: async () => this.broker,
      getNodeIds: () => ['1'],
      findTopicPartitionMetadata: () => [{ partitionId: 0, leader: 1 }],
      committedOffsets: () => committed,
    }
  }

  consumer(): Consumer {
    const client = new Kafka({ brokers: ['127.0.0.1:1'], logLevel: logLevel.NOTHING, retry })
    return client.consumer({
      ...{ groupId: 'billing', heartbeatInterval: 0, maxWaitTimeInMs: 5, retry },
      partitionAssigners: [
        (context) => {
          Object.assign(context.cluster as Cluster, this.cluster)
          return PartitionAssigners.roundRobin(context)
        },
      ],
    })
  }
}

// Red when records that are fetched meanwhile are only held: kafkajs, whose heartbeats succeed, never joins again.
test('a member whose last SyncGroup got no answer joins again, and goes on', async () => {
  const one = new OneBroker()
  const consumer = one.consumer()
  const kit = setUp({ concurrency: 10 })
  const { GROUP_JOIN, REBALANCING } = consumer.events
  consumer.on(GROUP_JOIN, ({ payload }) => kit.partitionBatches.joined(payload))
  consumer.on(REBALANCING, () => kit.partitionBatches.rebalancing())
  const settleAll = async (): Promise<void> => {
    for (const each of kit.handed) each.settle(ack)
    await kit.clock.advance(250)
  }
  const handsOver = (more: number): Promise<unknown> => {
    const goal = kit.handed.length + more
    return until(async () => {
      await settleAll()
      return kit.handed.length >= goal
    })
  }
  await consumer.subscribe({ topics: [TOPIC] })
  const eachBatch = kit.partitionBatches.attach(consumer)
  await consumer.run({ autoCommit: false, eachBatchAutoResolve: false, eachBatch })
  await handsOver(3)
  Object.assign(one, { isRebalancing: true, losesSync: true })
  await handsOver(10)
  expect(one.requests).toEqual(['sync', 'sync', 'sync'])
  let isOver = false
  const over = consumer.disconnect().finally(() => {
    isOver = true
  })
  while (!isOver) {
    await settleAll()
    await turn()
  }
  await over
})

// Red when the fetches count as signs of life: such a member is in no group, and kafkajs never notices.
test('a member that was forgotten, and whose join got no answer, is reported by the watchdog', async () => {
  const one = new OneBroker()
  one.isEmpty = true
  const consumer = one.consumer()
  const clock = new Clock()
  const watchdog = new Watchdog(clock.runtime, { sessionTimeout: 500, rebalanceTimeout: 500 })
  const barks: string[] = []
  const { FETCH, GROUP_JOIN, HEARTBEAT } = consumer.events
  let fetches = 0
  consumer.on(GROUP_JOIN, () => watchdog.begin(({ message }) => barks.push(message)))
  consumer.on(HEARTBEAT, ({ payload }) => watchdog.heard({ generation: payload.groupGenerationId }))
  consumer.on(FETCH, () => {
    fetches += 1
    watchdog.heard()
    void clock.advance(10)
  })
  await consumer.subscribe({ topics: [TOPIC] })
  await consumer.run({ autoCommit: false, eachBatch: () => Promise.resolve() })
  await until(async () => fetches > 200)
  expect(barks).toEqual([])
  Object.assign(one, { hasForgotten: true, losesJoin: true })
  await until(async () => barks.length > 0)
  expect(barks).toEqual(['A rejoin got no answer within 1000 ms'])
  expect(one.requests).toEqual(['sync'])
  await consumer.disconnect()
})
