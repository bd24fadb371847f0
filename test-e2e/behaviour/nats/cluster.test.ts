// @module-tag nightly

import { type JetStreamManager, jetstreamManager } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import { type NatsCluster, natsCluster, skipped, until } from '@onceward/testing'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  connectionTo,
  createNatsQueue,
  createStream,
  type NatsQueue,
} from '../../brokers/nats/queue.ts'
import { endsWithEverythingOnce } from '../../support/audit.ts'
import { effectsReach, orders, stillAlive } from '../../support/effects.ts'
import { Testbed } from '../../support/testbed.ts'

const PER_STEP = 100

/** What is lost with its leader: who takes new messages, or who knows what was delivered and acked. */
const LEADERS = ['stream', 'consumer'] as const

let cluster: NatsCluster
let connection: NatsConnection
let manager: JetStreamManager
beforeAll(async () => {
  if (skipped('nats')) return
  cluster = await natsCluster()
  connection = await connectionTo(cluster.urls.join())
  manager = await jetstreamManager(connection, { checkAPI: false })
  const first = { stream: 'first', subjects: ['first'], replicas: 3 }
  await until(() => createStream(connection, first).then(() => true), {
    what: 'servers that have found one another',
  })
})
afterAll(async () => {
  await connection?.close()
  await cluster?.[Symbol.asyncDispose]()
})

// Red when a consumer ends with its leader, or when an ack that died with a leader is a second effect.
test.skipIf(skipped('nats'))(
  'consumers continue by themselves when the leader of their stream or of their consumer is killed: 0 lost, 0 doubled',
  async () => {
    const queue = await createNatsQueue(cluster.urls.join(), { replicas: 3 })
    await using testbed = await Testbed.open({
      queue,
      worker: { transaction: 'each', concurrency: 4, deadlineMs: 5_000 },
    })
    const all = orders((LEADERS.length + 1) * PER_STEP, { takesMs: 20 })
    const workers = [testbed.spawn('one'), testbed.spawn('two')]
    await Promise.all(workers.map((worker) => worker.start()))
    await testbed.send(all.slice(0, PER_STEP))
    await effectsReach(testbed, PER_STEP / 2)

    for (const [step, what] of LEADERS.entries()) {
      const before = await leaderInSync(queue, what)
      const node = cluster.nodes[Number(before.slice(1)) - 1]
      const next = all.slice((step + 1) * PER_STEP, (step + 2) * PER_STEP)
      await testbed.send(next.slice(0, PER_STEP / 2))
      await node?.kill('SIGKILL')
      await testbed.send(next.slice(PER_STEP / 2))
      await effectsReach(testbed, (step + 2) * PER_STEP)
      expect(await leaderOf(queue, what)).not.toBe(before)
      await node?.restart()
    }

    stillAlive(workers)
    await endsWithEverythingOnce(testbed, all)
  },
  300_000,
)

type Kind = (typeof LEADERS)[number]

const clusterOf = async ({ source: { stream, consumer } }: NatsQueue, what: Kind) => {
  const { cluster: found } =
    what === 'stream'
      ? await manager.streams.info(stream)
      : await manager.consumers.info(stream, consumer)
  return found
}

const leaderOf = async (queue: NatsQueue, what: Kind): Promise<string> =>
  (await clusterOf(queue, what))?.leader ?? ''

/** A leader whose followers have all that it has: without one server nothing is missing. */
const leaderInSync = (queue: NatsQueue, what: Kind): Promise<string> =>
  until(
    async () => {
      const found = await Promise.all(LEADERS.map((each) => clusterOf(queue, each)))
      const current = found.map((one) => one?.replicas?.filter((replica) => replica.current))
      return current.every((replicas) => replicas?.length === 2) && leaderOf(queue, what)
    },
    { what: `a leader of the ${what}, and two followers of each`, deadlineMs: 60_000 },
  )
