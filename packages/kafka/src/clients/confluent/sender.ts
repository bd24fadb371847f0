import type { OwnSender } from '../port.ts'
import type { SentHeader, SentRecord } from '../producers.ts'
import { CALL_MS } from './cluster.ts'
import { type ConfluentConfig, clientConfig } from './config.ts'
import { confluentError } from './errors.ts'
import { answerOf, loadRdkafka, type RdProducer } from './rdkafka.ts'

/** How long librdkafka tries to send a record. */
const SEND_MS = 20_000

/** A producer that connects at its first record, and again after an error of the connection. */
export class ConfluentSender implements OwnSender {
  readonly #config: ConfluentConfig
  #connecting: Promise<RdProducer> | undefined

  constructor(config: ConfluentConfig) {
    this.#config = config
  }

  async send(topic: string, records: readonly SentRecord[]): Promise<void> {
    try {
      this.#connecting ??= this.#connect()
      const producer = await this.#connecting
      const sent = records.map((record) => sendOne(producer, topic, record))
      const failed = (await Promise.allSettled(sent)).find(({ status }) => status === 'rejected')
      if (failed !== undefined) throw (failed as PromiseRejectedResult).reason
    } catch (error) {
      throw confluentError(error)
    }
  }

  async close(): Promise<void> {
    const producer = await this.#connecting?.catch(() => undefined)
    this.#connecting = undefined
    if (producer !== undefined)
      await answerOf<unknown>((done) => producer.disconnect(CALL_MS, done))
  }

  async #connect(): Promise<RdProducer> {
    const { HighLevelProducer } = loadRdkafka()
    const producer = new HighLevelProducer({
      // Its own retries make no copies, and records keep their order.
      'enable.idempotence': true,
      'message.timeout.ms': SEND_MS,
      // The broker refuses a batch as a whole for one record that it does not take.
      'batch.num.messages': 1,
      ...clientConfig(this.#config),
      acks: -1,
    })
    // Without a listener nothing is lost: each record has its own answer.
    producer.on('event.error', () => undefined)
    try {
      await answerOf((done) => producer.connect({ allTopics: false, timeout: CALL_MS }, done))
    } catch (error) {
      this.#connecting = undefined
      throw error
    }
    producer.setPollInBackground(true)
    return producer
  }
}

const sendOne = (producer: RdProducer, topic: string, record: SentRecord): Promise<unknown> => {
  const { headers, key, partition = null, value } = record
  const bytes = typeof value === 'string' ? Buffer.from(value) : value
  return answerOf((done) =>
    producer.produce(topic, partition, bytes, key, null, toHeaders(headers), done),
  )
}

/** The client sends null for a buffer of no bytes. */
export const toHeaders = (
  headers: Readonly<Record<string, SentHeader>>,
): readonly Readonly<Record<string, Buffer | string>>[] =>
  Object.entries(headers).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).map((one) => ({
      [name]: one.length === 0 ? '' : one,
    })),
  )
