import type { RunningBroker } from '../brokers/broker.ts'
import { BROKERS, type BrokerName } from '../brokers/index.ts'
import { wrongDead } from '../crash/ledger.ts'
import { isFatal } from '../crash/plan.ts'
import type { Servers } from '../crash/servers.ts'
import { Testbed } from '../support/testbed.ts'
import type { Order } from '../support/workers/protocol.ts'
import type { WorkerProcess } from '../support/workers/worker-process.ts'
import type { Sample } from './trend.ts'

/** A cycle that takes this long is a hang. A busy machine may take a minute to restart a broker. */
const HANG_MS = 300_000

/** A broker with one worker that is never killed, so that whatever it leaks adds up. */
export class Post implements AsyncDisposable {
  readonly name: BrokerName
  readonly broker: RunningBroker
  readonly worker: WorkerProcess
  readonly samples: Sample[] = []
  readonly lost: string[] = []
  readonly doubled: string[] = []
  events = 0
  readonly #testbed: Testbed
  readonly #dead: string[] = []

  private constructor(name: BrokerName, broker: RunningBroker, testbed: Testbed) {
    this.name = name
    this.broker = broker
    this.worker = testbed.spawn(name)
    this.#testbed = testbed
  }

  static async open(name: BrokerName, servers: Servers): Promise<Post> {
    const broker = await servers.broker(name)
    const testbed = await Testbed.open({
      queue: await broker.createQueue(),
      databaseUrl: await servers.postgres.createDatabase(),
      worker: {
        transaction: BROKERS[name].traits.soakTransaction,
        ...{ leaseMs: 3_000, deadlineMs: 5_000, longestDeferMs: 2_000, concurrency: 4 },
        // A blow may hit an event that runs alone, and then it counts.
        attempts: 10,
        ...{ redisPort: servers.redis.connection.port, redisBudgetMs: 20 },
      },
    })
    const post = new Post(name, broker, testbed)
    await post.worker.start()
    return post
  }

  /** Sends these, and waits until all of them are settled and nothing is in flight. */
  async play(messages: readonly Order[], events: readonly Order[]): Promise<void> {
    const isSent = (): Promise<true> => this.#testbed.send(messages).then(() => true)
    await this.#until(isSent, 'the broker to take messages')
    const dead = events.filter(isFatal).map(({ id }) => id)
    this.#dead.push(...dead)
    await this.#until(() => this.#isOver(events.length - dead.length), 'the end of a cycle')
    await this.#audit(events.filter((event) => !isFatal(event)))
    this.events += events.length
  }

  async sample(atMs: number): Promise<void> {
    this.samples.push({ ...(await this.worker.usage()), atMs })
  }

  wrongDead(): Promise<readonly string[]> {
    return wrongDead(this.#testbed, this.#dead)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#testbed[Symbol.asyncDispose]()
  }

  async #isOver(alive: number): Promise<boolean> {
    const { rows } = await this.#testbed.pool.query<{ effects: number; dead: number }>(
      `select (select count(distinct id) from effects)::int as effects,
        (select count(*) from onceward.failed_events where published)::int as dead`,
    )
    const [counted] = rows
    if (counted === undefined || counted.effects < alive) return false
    if (counted.dead < this.#dead.length || (await this.#testbed.queue?.depth()) !== 0) return false
    const { state, inFlight } = await this.worker.health()
    return state === 'running' && inFlight === 0
  }

  /** Counts the effects of a cycle and removes them. A late effect is found in the next cycle. */
  async #audit(alive: readonly Order[]): Promise<void> {
    // Postgres may still be down from the last blow of the cycle.
    const effects = await this.#answer(() => this.#testbed.effects(), 'the effects of a cycle')
    const ids = new Set(alive.map(({ id }) => id))
    this.lost.push(...[...ids].filter((id) => effects[id] === undefined))
    this.doubled.push(...Object.keys(effects).filter((id) => effects[id] !== 1 || !ids.has(id)))
    await this.#answer(
      () => this.#testbed.pool.query('truncate effects'),
      'the effects to be removed',
    )
  }

  /** Repeats the query while the database is down. */
  async #answer<Answer>(ask: () => Promise<Answer>, what: string): Promise<Answer> {
    const { promise, resolve } = Promise.withResolvers<Answer>()
    await this.#until(async () => {
      resolve(await ask())
      return true
    }, what)
    return promise
  }

  #until(condition: () => Promise<boolean>, what: string): Promise<void> {
    return this.#testbed.until(condition, { what: `${this.name}: ${what}`, deadlineMs: HANG_MS })
  }
}
