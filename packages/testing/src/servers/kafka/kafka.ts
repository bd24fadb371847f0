import { dockerServer } from '../run/docker-container.ts'
import { IMAGES } from '../run/images.ts'
import { retryTakenPort } from '../run/native.ts'
import { needPeer } from '../run/peers.ts'
import { resolveServer, userServer } from '../run/resolve.ts'
import type { Server, ServerOptions } from '../run/server.ts'
import { type KafkaConnection, type KafkaUser, probeKafka } from './kafka-connection.ts'
import {
  addresses,
  KAFKA_SETTINGS,
  newClusterId,
  nodePorts,
  type Settings,
  startNode,
} from './kafka-node.ts'

/** Options of {@link kafka}. */
export interface KafkaOptions extends ServerOptions {
  /** Broker settings of a server of our own, as in server.properties. */
  readonly settings?: Readonly<Record<string, string>> | undefined
  /** The only one who may connect (SASL/PLAIN), to a server of our own; default: anybody. */
  readonly user?: KafkaUser | undefined
}

/**
 * A real Kafka: `ONCEWARD_KAFKA_BROKERS`, Docker, or one KRaft node from Maven jars.
 *
 * @throws {@link ServerMissingError} also without the package kafkajs, which an own Kafka is asked with.
 */
export async function kafka(options: KafkaOptions = {}): Promise<Server<KafkaConnection>> {
  needPeer('kafkajs')
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

function dockerKafka(
  settings: Settings,
  credentials: Credentials,
): Promise<Server<KafkaConnection>> {
  return dockerServer({
    name: 'kafka',
    image: IMAGES.kafka,
    port: 9092,
    environment: (port) => kafkaEnvironment({ ...settings, ...inContainer(port) }),
    connection: (port) => ({ brokers: [`127.0.0.1:${port}`], ...credentials }),
    probe: probeKafka,
  })
}

const inContainer = (port: number): Settings => ({
  'controller.quorum.voters': '1@127.0.0.1:9093',
  ...addresses('', { broker: 9092, controller: 9093 }, port),
})

/** Settings as the image takes them: `node.id` is `KAFKA_NODE_ID`. */
export function kafkaEnvironment(settings: Settings): Record<string, string> {
  return Object.fromEntries(
    Object.entries(settings).map(([name, value]) => [
      `KAFKA_${name.toUpperCase().replaceAll('.', '_')}`,
      value,
    ]),
  )
}

async function nativeKafka(
  settings: Settings,
  credentials: Credentials,
): Promise<Server<KafkaConnection>> {
  const ports = await nodePorts()
  const connection = { brokers: [`127.0.0.1:${ports.broker}`], ...credentials }
  return startNode({
    ...{ id: 1, ports, connection, clusterId: newClusterId() },
    settings: { ...settings, 'controller.quorum.voters': `1@127.0.0.1:${ports.controller}` },
    probe: () => probeKafka(connection),
  })
}
