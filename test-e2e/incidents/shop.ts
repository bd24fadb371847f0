import { SendMessageCommand, SQSClient } from '@aws-sdk/client-sqs'
import { migrate } from '@onceward/postgres'
import { freePort, type SqsConnection, until } from '@onceward/testing'
import pg from 'pg'
import { expect } from 'vitest'
import { BUILT, fromSource, type Release } from './commands.ts'
import { type Pod, startPod } from './pod-process.ts'

/** The servers of a shop. */
export interface Servers {
  readonly broker: SqsConnection
  readonly queueUrl: string
  /** Of an empty database, as pods and operators reach it. */
  readonly databaseUrl: string
  readonly deadLetterQueueUrl?: string | undefined
  readonly redisUrl?: string | undefined
}

const ORDERS = 3

/** A consumer `billing` that charges orders, on a database of its own. */
export class Shop implements AsyncDisposable {
  readonly servers: Servers
  readonly pool: pg.Pool
  /** At which the pods, one after the other, answer `/metrics`. */
  readonly healthPort: number
  readonly #producer: SQSClient
  readonly #pods: Pod[] = []
  #paid = 0

  private constructor(servers: Servers, pool: pg.Pool, healthPort: number) {
    this.servers = servers
    this.pool = pool
    this.healthPort = healthPort
    this.#producer = new SQSClient(servers.broker)
  }

  static async open(servers: Servers): Promise<Shop> {
    const pool = new pg.Pool({ connectionString: servers.databaseUrl })
    pool.on('error', () => undefined)
    await migrate(pool)
    await pool.query(`create table accounts (shop int primary key, balance bigint not null);
      create table charges (order_id text not null, cents int not null);
      insert into accounts values (1, 0)`)
    return new Shop(servers, pool, await freePort())
  }

  /** Of pods and of operators. */
  get environment(): Readonly<Record<string, string>> {
    const { databaseUrl, redisUrl } = this.servers
    return { DATABASE_URL: databaseUrl, ...(redisUrl && { REDIS_URL: redisUrl }) }
  }

  /** Resolves when the new pod consumes, or has ended. The pod before it is killed. */
  async deploy(release: Release = fromSource(BUILT.root)): Promise<Pod> {
    await this.#pods.at(-1)?.kill()
    const { broker, deadLetterQueueUrl, queueUrl } = this.servers
    // The client is configured by its environment, as in the samples.
    const pod = await startPod(release, {
      ...{ ...process.env, ...this.environment, HEALTH_PORT: String(this.healthPort) },
      ...{ AWS_ENDPOINT_URL_SQS: broker.endpoint, AWS_REGION: broker.region },
      AWS_ACCESS_KEY_ID: broker.credentials.accessKeyId,
      AWS_SECRET_ACCESS_KEY: broker.credentials.secretAccessKey,
      QUEUE_URL: queueUrl,
      ...(deadLetterQueueUrl && { DEAD_LETTER_QUEUE_URL: deadLetterQueueUrl }),
    })
    this.#pods.push(pod)
    return pod
  }

  async send(...orders: readonly object[]): Promise<void> {
    const QueueUrl = this.servers.queueUrl
    for (const order of orders) {
      const MessageBody = JSON.stringify(order)
      await this.#producer.send(new SendMessageCommand({ QueueUrl, MessageBody }))
    }
  }

  /** Orders that the consumer can charge. */
  async sendGood(): Promise<void> {
    for (let n = 0; n < ORDERS; n += 1) {
      this.#paid += 1
      await this.send({ orderId: `paid-${this.#paid}`, shop: 1, cents: 100 })
    }
  }

  /** Sends good orders and waits until all that were ever sent are charged, each once. */
  async work(): Promise<void> {
    await this.sendGood()
    const isCharged = async (): Promise<boolean> => {
      const pod = this.#pods.at(-1)
      expect(pod?.isRunning, pod?.log).toBe(true)
      return (await this.charges("order_id like 'paid-%'")) === this.#paid
    }
    await until(isCharged, { what: 'charged orders', deadlineMs: 60_000 })
  }

  async charges(where = 'true'): Promise<number> {
    const sql = `select count(*)::int as count from charges where ${where}`
    const { rows } = await this.pool.query(sql)
    return rows[0]?.count
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#pods.at(-1)?.kill()
    await this.pool.end()
    this.#producer.destroy()
  }
}
