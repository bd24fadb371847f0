import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type JarsNeed, type JavaProgram, javaProgram } from '../run/maven.ts'
import { nativeServer, serverDirectory } from '../run/native.ts'
import { freePort } from '../run/ports.ts'
import { launch } from '../run/process.ts'
import type { Server } from '../run/server.ts'
import type { KafkaConnection } from './kafka-connection.ts'

const run = promisify(execFile)

/** What a native Kafka needs. */
export const KAFKA_JARS: JarsNeed = {
  pom: 'kafka',
  service: 'kafka',
  variable: 'ONCEWARD_KAFKA_BROKERS',
}

/** As in server.properties. */
export type Settings = Readonly<Record<string, string>>

/** How a Kafka of the tests differs from the defaults. */
export const KAFKA_SETTINGS: Settings = {
  'process.roles': 'broker,controller',
  'node.id': '1',
  'listener.security.protocol.map': 'PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT',
  'controller.listener.names': 'CONTROLLER',
  'inter.broker.listener.name': 'PLAINTEXT',
  'num.partitions': '4',
  'num.network.threads': '1',
  'num.io.threads': '2',
  'offsets.topic.replication.factor': '1',
  'offsets.topic.num.partitions': '1',
  'transaction.state.log.replication.factor': '1',
  'transaction.state.log.min.isr': '1',
  'transaction.state.log.num.partitions': '1',
  'share.coordinator.state.topic.replication.factor': '1',
  'share.coordinator.state.topic.min.isr': '1',
  'group.initial.rebalance.delay.ms': '0',
  // Lets tests of zombies use short sessions; the default is 6000.
  'group.min.session.timeout.ms': '1000',
  // A broker killed with SIGKILL may come back when the session of its former self has expired.
  'broker.session.timeout.ms': '2000',
  'broker.heartbeat.interval.ms': '500',
  // The default of 128 MiB would not fit into the heap.
  'log.cleaner.dedupe.buffer.size': '4194304',
  'auto.create.topics.enable': 'false',
}

const JVM = ['-Xms96m', '-Xmx320m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1']

const LOG4J = `appender.c.type=Console
appender.c.name=C
appender.c.layout.type=PatternLayout
appender.c.layout.pattern=%d %p %c{1} %m%n
rootLogger.level=warn
rootLogger.appenderRef.c.ref=C
`

/** One of the processes of a cluster: broker and controller in one. */
export interface KafkaNode {
  readonly id: number
  readonly ports: NodePorts
  /** The same for all nodes. */
  readonly clusterId: string
  /** `controller.quorum.voters` is among them. */
  readonly settings: Settings
  readonly connection: KafkaConnection
  /** Rejects until the node serves. */
  readonly probe: () => Promise<unknown>
}

export interface NodePorts {
  readonly broker: number
  readonly controller: number
}

export const nodePorts = async (): Promise<NodePorts> => ({
  broker: await freePort(),
  controller: await freePort(),
})

/** Not at random over all of base64url: an id that begins with a dash would be taken for an option. */
export const newClusterId = (): string =>
  Buffer.concat([Buffer.from([0]), randomBytes(15)]).toString('base64url')

/** Where a node listens, and at which port of this machine clients find it. */
export const addresses = (
  host: string,
  { broker, controller }: NodePorts,
  advertised: number = broker,
): Settings => ({
  listeners: `PLAINTEXT://${host}:${broker},CONTROLLER://${host}:${controller}`,
  'advertised.listeners': `PLAINTEXT://127.0.0.1:${advertised}`,
})

/** A KRaft node from Maven jars, with a log of its own. */
export async function startNode(node: KafkaNode): Promise<Server<KafkaConnection>> {
  const program = await javaProgram(KAFKA_JARS)
  const directory = await serverDirectory('kafka')
  const log = join(directory, 'kafka.log')
  const properties = await format(program, directory, {
    ...node,
    settings: {
      ...node.settings,
      ...addresses('127.0.0.1', node.ports),
      'node.id': String(node.id),
      'log.dirs': join(directory, 'data'),
    },
  })
  return nativeServer({
    name: 'kafka',
    connection: node.connection,
    directory,
    log,
    stopSignal: 'SIGTERM',
    startDeadlineMs: 180_000,
    launch: () =>
      launch({
        command: program.java,
        args: [
          ...JVM,
          `-Dkafka.logs.dir=${directory}`,
          `-Dlog4j2.configurationFile=${join(directory, 'log4j2.properties')}`,
          ...['-cp', program.classpath, 'kafka.Kafka', properties],
        ],
        cwd: directory,
        log,
        directory,
      }),
    probe: node.probe,
  })
}

async function format(
  program: JavaProgram,
  directory: string,
  { clusterId, settings }: Pick<KafkaNode, 'clusterId' | 'settings'>,
): Promise<string> {
  const file = join(directory, 'server.properties')
  const lines = Object.entries(settings).map(([name, value]) => `${name}=${value}\n`)
  await writeFile(file, lines.join(''))
  await writeFile(join(directory, 'log4j2.properties'), LOG4J)
  await run(program.java, [
    ...JVM,
    ...['-cp', program.classpath, 'kafka.tools.StorageTool'],
    ...['format', '-t', clusterId, '-c', file],
  ])
  return file
}
