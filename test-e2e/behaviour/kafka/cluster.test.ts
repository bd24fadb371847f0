import { type KafkaCluster, kafkaCluster, skipped } from '@onceward/testing'
import { type Admin, Kafka, logLevel } from 'kafkajs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createTopic } from '../../brokers/kafka/queue.ts'
import { freshName } from '../../brokers/queue-under-test.ts'
import { endsWithEverythingOnce } from '../../support/audit.ts'
import { effectsReach, orders, stillAlive } from '../../support/effects.ts'
import { TestStage } from '../../support/test-stage.ts'

const PER_STEP = 100

let cluster: KafkaCluster
let admin: Admin
beforeAll(async () => {
  if (skipped('kafka')) return
  cluster = await kafkaCluster()
  admin = new Kafka({ ...cluster.connection, logLevel: logLevel.NOTHING }).admin()
  await admin.connect()
})
afterAll(async () => {
  await admin?.disconnect()
  await cluster?.[Symbol.asyncDispose]()
})

/*
 * Kills the coordinator of the group twice, which also leads some partitions. Red when a consumer ends with its
 * coordinator.
 */
test.skipIf(skipped('kafka'))(
  'members continue by themselves when their coordinator and leaders move: 0 lost, 0 doubled',
  async () => {
    const queue = await createTopic(cluster.connection, freshName(), { sessionMs: 6_000 })
    await using stage = await TestStage.open({
      queue,
      worker: { transaction: 'each', concurrency: 4, deadlineMs: 5_000 },
    })
    const all = orders(3 * PER_STEP, { takesMs: 20 })
    const workers = [stage.spawn('one'), stage.spawn('two')]
    await Promise.all(workers.map((worker) => worker.start()))
    await stage.send(all.slice(0, PER_STEP))
    await effectsReach(stage, PER_STEP / 2)

    for (const step of [1, 2]) {
      const before = await coordinator()
      await cluster.nodes[before - 1]?.kill('SIGKILL')
      await stage.send(all.slice(step * PER_STEP, (step + 1) * PER_STEP))
      await effectsReach(stage, (step + 1) * PER_STEP)
      expect(await coordinator()).not.toBe(before)
      await cluster.nodes[before - 1]?.restart()
    }

    stillAlive(workers)
    // Warnings are not checked: kafkajs adds too many listeners while one broker of the cluster is dead.
    await endsWithEverythingOnce(stage, all)
  },
  300_000,
)

/** The id of the node that coordinates all groups: the topic of their offsets has one partition. */
async function coordinator(): Promise<number> {
  const { topics } = await admin.fetchTopicMetadata({ topics: ['__consumer_offsets'] })
  return topics[0]?.partitions[0]?.leader ?? 0
}
