import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Kafka, logLevel } from 'kafkajs'
import { dockerServer } from './docker-container.ts'
import { IMAGES } from './images.ts'
import { type JarsNeed, type JavaProgram, javaProgram } from './maven.ts'
import { nativeServer, retryTakenPort, serverDirectory } from './native.ts'
import { freePort } from './ports.ts'
import { launch } from './process.ts'
import { resolveServer, userServer } from './resolve.ts'
import type { Server, ServerOptions } from './server.ts'

const run = promisify(execFile)

/** How to reach a Kafka cluster. */
export interface KafkaConnection {
  readonly brokers: string[]
  /** Where the cluster wants to know who asks. */
  readonly sasl?: KafkaUser & { readonly mechanism: 'plain' }
}

export interface KafkaUser {
  readonly username: string
  readonly password: string
}

/** Options of {@link kafka}. */
export interface KafkaOptions extends ServerOptions {
  /** Broker settings of a server of our own, as in server.properties. */
  readonly settings?: Readonly<Record<string, string>> | undefined
  /** The only one who may connect (SASL/PLAIN), to a server of our own; default: anybody. */
  readonly user?: KafkaUser | undefined
}

/** What a native Kafka needs. */
export const KAFKA_JARS: JarsNeed = {
  pom: 'kafka',
  service: 'kafka',
  variable: 'ONCEWARD_KAFKA_BROKERS',
}

type Settings = Readonly<Record<string, string>>

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

/** A real Kafka: `ONCEWARD_KAFKA_BROKERS`, Docker, or one KRaft node from Maven jars. */
export async function kafka(options: KafkaOptions = {}): Promise<Server<KafkaConnection>> {
  const { user } = options
  const settings = { ...KAFKA_SETTINGS, ...(user && onlyFor(user)), ...options.settings }
  const credentials = user === undefined ? {} : { sasl: { mechanism: 'plain', ...user } as const }
  return resolveServer(options, {
    variable: 'ONCEWARD_KAFKA_BROKERS',
    fromEnvironment: async (value) => {
      const connection = { brokers: value.split(',').map((broker) => broker.trim()) }
      await probeKafka(connection)
      return userServer('kafka', 'ONCEWARD_KAFKA_BROKERS', connection)
    },
    docker: () => dockerKafka(settings, credentials),
    native: () => retryTakenPort(() => nativeKafka(settings, credentials)),
  })
}

type Credentials = Pick<KafkaConnection, 'sasl'>

const onlyFor = ({ username, password }: KafkaUser): Settings => ({
  'listener.security.protocol.map': 'PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT',
  'sasl.enabled.mechanisms': 'PLAIN',
  'sasl.mechanism.inter.broker.protocol': 'PLAIN',
  'listener.name.plaintext.plain.sasl.jaas.config':
    'org.apache.kafka.common.security.plain.PlainLoginModule required ' +
    `username="${username}" password="${password}" user_${username}="${password}";`,
})

/** Rejects until the cluster has a broker that is ready to serve. */
async function probeKafka(connection: KafkaConnection): Promise<void> {
  const client = new Kafka({
    ...connection,
    clientId: 'onceward-probe',
    logLevel: logLevel.NOTHING,
    connectionTimeout: 2_000,
    requestTimeout: 5_000,
    retry: { retries: 0 },
  })
  const admin = client.admin()
  try {
    await admin.connect()
    const cluster = await admin.describeCluster()
    if (cluster.brokers.length === 0) throw new Error('no broker is registered')
  } finally {
    await admin.disconnect()
  }
}

function dockerKafka(
  settings: Settings,
  credentials: Credentials,
): Promise<Server<KafkaConnection>> {
  return dockerServer({
    name: 'kafka',
    image: IMAGES.kafka,
    port: 9092,
    environment: (port) => kafkaEnvironment({ ...settings, ...addresses('', port) }),
    connection: (port) => ({ brokers: [`127.0.0.1:${port}`], ...credentials }),
    probe: probeKafka,
  })
}

/** Settings as the image takes them: `node.id` is `KAFKA_NODE_ID`. */
export function kafkaEnvironment(settings: Settings): Record<string, string> {
  return Object.fromEntries(
    Object.entries(settings).map(([name, value]) => [
      `KAFKA_${name.toUpperCase().replaceAll('.', '_')}`,
      value,
    ]),
  )
}

function addresses(host: string, port: number, own = { broker: 9092, controller: 9093 }): Settings {
  return {
    'controller.quorum.voters': `1@127.0.0.1:${own.controller}`,
    listeners: `PLAINTEXT://${host}:${own.broker},CONTROLLER://${host}:${own.controller}`,
    'advertised.listeners': `PLAINTEXT://127.0.0.1:${port}`,
  }
}

async function nativeKafka(
  settings: Settings,
  credentials: Credentials,
): Promise<Server<KafkaConnection>> {
  const program = await javaProgram(KAFKA_JARS)
  const port = await freePort()
  const directory = await serverDirectory('kafka')
  const log = join(directory, 'kafka.log')
  const connection = { brokers: [`127.0.0.1:${port}`], ...credentials }
  const own = { broker: port, controller: await freePort() }
  const properties = await format(program, directory, {
    ...settings,
    ...addresses('127.0.0.1', port, own),
    'log.dirs': join(directory, 'data'),
  })
  return nativeServer({
    name: 'kafka',
    connection,
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
    probe: () => probeKafka(connection),
  })
}

async function format(
  program: JavaProgram,
  directory: string,
  settings: Settings,
): Promise<string> {
  const file = join(directory, 'server.properties')
  const lines = Object.entries(settings).map(([name, value]) => `${name}=${value}\n`)
  await writeFile(file, lines.join(''))
  await writeFile(join(directory, 'log4j2.properties'), LOG4J)
  // Not at random over all of base64url: an id that begins with a dash would be taken for an option.
  const clusterId = Buffer.concat([Buffer.from([0]), randomBytes(15)]).toString('base64url')
  await run(program.java, [
    ...JVM,
    ...['-cp', program.classpath, 'kafka.tools.StorageTool'],
    ...['format', '-t', clusterId, '-c', file],
  ])
  return file
}
