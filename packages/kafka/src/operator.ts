import { ConfigurationError, type Delivery } from '@onceward/core'
import {
  findingsOf,
  type GuardSettings,
  notSent,
  OPERATOR_CALL_MS,
  type OperateBroker,
  refusalOf,
  refuseParameters,
} from '@onceward/core/adapter'
import { systemRuntime } from '@onceward/core/ports'
import { Kafka, type KafkaConfig, logLevel, type Producer, type SASLOptions } from 'kafkajs'
import { kafkajsClient } from './clients/kafkajs/index.ts'
import { senderThrough } from './clients/producers.ts'
import { originalMessage } from './dead-letter.ts'
import { kafkaMessage } from './delivery.ts'
import { examine, missingTopic } from './doctor.ts'
import { classifyError } from './errors.ts'
import { resolveConsumerSettings } from './options.ts'

// The adapter as the command line uses it. Not for users.

const PARAMETERS = ['topic', 'group', 'dead-letter', 'sasl']
const EXAMPLE = 'kafka://host:9092,host2:9092?topic=orders'
const ADDRESS = /^(kafkas?):\/\/(?:([^/@:]*)(?::([^/]*))?@)?([^/@]+)\/?$/
const MECHANISMS = ['plain', 'scram-sha-256', 'scram-sha-512'] as const

/**
 * Reads `kafka://[user[:password]@]host:port[,host:port]`, or `kafkas://` for TLS. A user or password that is not in it
 * comes from `KAFKA_USERNAME` and `KAFKA_PASSWORD`.
 */
export const operate: OperateBroker = ({ url, params, env }) => {
  refuseParameters(params, PARAMETERS)
  const [, scheme, user, password, servers = ''] = ADDRESS.exec(url) ?? []
  if (scheme === undefined) {
    throw new ConfigurationError(`Expected the address of Kafka to be like ${EXAMPLE}.`)
  }
  const username = unescaped(user) || env['KAFKA_USERNAME']
  const secret = unescaped(password) || env['KAFKA_PASSWORD']
  // It would be left out, and the cluster asked without a login.
  if (password && username === undefined) {
    throw new ConfigurationError(
      'The address of Kafka has a password and no user. Write the user before it, or set KAFKA_USERNAME.',
    )
  }
  const kafka = new Kafka({
    ...{ clientId: 'onceward', brokers: servers.split(','), logLevel: logLevel.NOTHING },
    ...{
      connectionTimeout: OPERATOR_CALL_MS,
      authenticationTimeout: OPERATOR_CALL_MS,
      requestTimeout: OPERATOR_CALL_MS,
    },
    ...{ retry: { retries: 2, initialRetryTime: 100 }, ssl: scheme === 'kafkas' },
    ...saslOf(username, secret, params.get('sasl') ?? 'plain'),
  })
  const topics = params.getAll('topic')
  const sender = new Sender(kafka)
  return {
    place: servers,
    inspect: (guard) => inspect(kafka, params, guard),
    owns: ({ broker, queue }) =>
      broker === 'kafka' && (topics.length === 0 || topics.includes(queue)),
    ready: ({ queue }) => sender.ready(queue),
    send: (delivery) => sender.send(delivery),
    [Symbol.asyncDispose]: () => sender.close(),
  }
}

function unescaped(text = ''): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw new ConfigurationError(
      'The user or the password in the address of Kafka has a % that begins no escape. Write %25 for %, %40 for @ and %2F for /.',
    )
  }
}

/** After these the record is not in the topic. */
const rethrow = refusalOf(classifyError, ['too-large', 'topic-missing', 'denied'])

/** Sends records to the topics and partitions that they came from. */
class Sender {
  readonly #kafka: Kafka
  /** Partitions of the topics that are there. */
  readonly #partitions = new Map<string, number>()
  #producer: Promise<Producer> | undefined

  constructor(kafka: Kafka) {
    this.#kafka = kafka
  }

  async ready(topic: string): Promise<void> {
    if (this.#partitions.has(topic)) return
    try {
      const of = { runtime: systemRuntime, groupId: 'onceward' }
      const partitions = await kafkajsClient(this.#kafka).ask(
        (cluster) => cluster.replicas(topic),
        of,
      )
      this.#partitions.set(topic, partitions.length)
    } catch (error) {
      if (classifyError(error).kind !== 'topic-missing') throw error
      throw new ConfigurationError(missingTopic('--broker', topic), { cause: error })
    }
  }

  async send(delivery: Delivery): Promise<void> {
    const topic = delivery.source.queue
    const partition = kafkaMessage(delivery)?.partition
    // The topic may have been created again, with fewer partitions.
    const isThere = partition !== undefined && partition < (this.#partitions.get(topic) ?? 0)
    const message = { ...originalMessage(delivery), ...(isThere ? { partition } : {}) }
    const producer = await this.#connected()
    await senderThrough(producer).send(topic, [message]).catch(rethrow)
  }

  async #connected(): Promise<Producer> {
    this.#producer ??= this.#connect()
    try {
      return await this.#producer
    } catch (error) {
      // Nothing was sent, and the next message tries again.
      this.#producer = undefined
      throw notSent(classifyError(error).text, error)
    }
  }

  async #connect(): Promise<Producer> {
    const producer = this.#kafka.producer({ allowAutoTopicCreation: false })
    await producer.connect()
    return producer
  }

  async close(): Promise<void> {
    await (await this.#producer)?.disconnect()
  }
}

function saslOf(
  username: string | undefined,
  password: string | undefined,
  mechanism: string,
): Pick<KafkaConfig, 'sasl'> {
  if (!MECHANISMS.some((known) => known === mechanism)) {
    throw new ConfigurationError(
      `Expected \`sasl\` to be one of ${MECHANISMS.join(', ')}. Correct the address of Kafka.`,
    )
  }
  if (username === undefined) return {}
  if (password === undefined) {
    throw new ConfigurationError('Kafka has a user and no password. Set KAFKA_PASSWORD.')
  }
  return { sasl: { mechanism, username, password } as SASLOptions }
}

async function inspect(kafka: Kafka, params: URLSearchParams, guard: GuardSettings) {
  const topics = params.getAll('topic')
  if (topics.length === 0) {
    throw new ConfigurationError(`Which topics? Add them to the address: ${EXAMPLE}.`)
  }
  const [groupId, topic] = [params.get('group'), params.get('dead-letter')]
  return findingsOf(async (logger) => {
    const settings = resolveConsumerSettings(
      {
        topics,
        ...(groupId === null ? {} : { groupId }),
        ...(topic === null ? {} : { deadLetter: { producer: kafka.producer(), topic } }),
      },
      guard,
    )
    await examine({
      client: kafkajsClient(kafka),
      settings,
      port: { settings: guard, logger, runtime: systemRuntime },
    })
  })
}
