import { retryTakenPort } from '../run/native.ts'
import type { Server } from '../run/server.ts'
import { type KafkaConnection, probeKafka } from './kafka-connection.ts'
import { KAFKA_SETTINGS, newClusterId, nodePorts, type Settings, startNode } from './kafka-node.ts'

/** A Kafka of several brokers, each of which can be killed and restarted. */
export interface KafkaCluster extends AsyncDisposable {
  /** All of them. */
  readonly connection: KafkaConnection
  /** The node with the id `n` is at `n - 1`. */
  readonly nodes: readonly Server<KafkaConnection>[]
}

const COUNT = 3

/** Everything is kept three times, so that the cluster works without one of them. */
const REPLICATED: Settings = {
  ...KAFKA_SETTINGS,
  'default.replication.factor': String(COUNT),
  'min.insync.replicas': '2',
  'offsets.topic.replication.factor': String(COUNT),
  'transaction.state.log.replication.factor': String(COUNT),
}

/**
 * Three KRaft nodes from Maven jars, each broker and controller; resolves when all are registered. Always native:
 * whoever moves leaders around needs servers of its own.
 */
export const kafkaCluster = (): Promise<KafkaCluster> => retryTakenPort(start)

async function start(): Promise<KafkaCluster> {
  const ports = await Promise.all(Array.from({ length: COUNT }, nodePorts))
  const connection = { brokers: ports.map(({ broker }) => `127.0.0.1:${broker}`) }
  const voters = ports.map(({ controller }, index) => `${index + 1}@127.0.0.1:${controller}`)
  const clusterId = newClusterId()
  const settings = { ...REPLICATED, 'controller.quorum.voters': voters.join() }
  const starting = ports.map((own, index) => {
    const alone = { brokers: [`127.0.0.1:${own.broker}`] }
    const probe = (): Promise<void> => probeKafka(alone, COUNT)
    return startNode({ id: index + 1, ports: own, clusterId, settings, connection: alone, probe })
  })
  const started = await Promise.allSettled(starting)
  const nodes = started.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
  const stop = async (): Promise<void> => {
    await Promise.all(nodes.map((node) => node.stop()))
  }
  const failed = started.find((one) => one.status === 'rejected')
  if (failed !== undefined) {
    await stop()
    throw failed.reason
  }
  return { connection, nodes, [Symbol.asyncDispose]: stop }
}
