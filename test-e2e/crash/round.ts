import { setTimeout as pause } from 'node:timers/promises'
import { Testbed } from '../support/testbed.ts'
import { Crew } from '../support/workers/crew.ts'
import type { WorkerProcess } from '../support/workers/worker-process.ts'
import { audit, type Ledger, openLedger } from './ledger.ts'
import type { Plan } from './plan.ts'
import type { Servers } from './servers.ts'
import { rage } from './storm.ts'

export interface RoundResult extends Ledger {
  readonly plan: Plan
  /** Settlements that workers reported. Deliveries that were in flight at a SIGKILL are not counted. */
  readonly deliveries: number
  /** Those of workers of the older release. */
  readonly deliveriesOfOlder: number
  readonly kills: number
  /** How processes ended that were not killed. */
  readonly selfEnded: readonly string[]
  /** What workers and the inbox know about the wrong events. */
  readonly explanation: string
  readonly durationMs: number
}

const WORKERS = 3
/** About as many events are sent ahead, so that queues stay short and blows fall while messages are sent. */
const BACKLOG = 1_000
const CHUNK = 100
/** The time between two progress queries. */
const LOOK_MS = 100
/** No progress for this long is a hang. A busy machine may take a minute to restart a broker. */
const HANG_MS = 240_000

const DEALT_WITH = `select ((select count(distinct id) from effects)
  + (select count(*) from onceward.failed_events where published))::int as n`

export interface Surroundings {
  readonly servers: Servers
  /** Of workers, in turn. Default: that of this checkout. */
  readonly scripts?: readonly string[]
}

/** Plays the plan with three workers on one queue, and then audits the database. */
export async function playRound(
  plan: Plan,
  { servers, scripts = [] }: Surroundings,
): Promise<RoundResult> {
  const startedAt = performance.now()
  const broker = await servers.broker(plan.broker)
  await using testbed = await Testbed.open({
    queue: await broker.createQueue(),
    databaseUrl: await servers.postgres.createDatabase(),
    worker: {
      transaction: plan.transaction,
      ...{ leaseMs: 3_000, deadlineMs: 5_000, longestDeferMs: 2_000, concurrency: 4 },
      // A blow may interrupt an event that runs alone, and then it counts as an attempt.
      attempts: 10,
      ...(plan.hasRedis
        ? { redisPort: servers.redis.connection.port, redisBudgetMs: 20 }
        : undefined),
    },
  })
  await openLedger(testbed)
  const crew = await Crew.of(WORKERS, testbed, { scripts })
  const progress = new Progress(testbed, plan)
  await Promise.all([
    send(testbed, plan, progress),
    rage({ plan, crew, servers, broker, reached: (share) => progress.reached(share) }),
  ])
  await progress.reached(1)
  await testbed.drained(HANG_MS)
  const selfEnded = crew.deaths.filter((how) => how !== 'SIGKILL').map(String)
  await endAll(testbed, crew)
  const ledger = await audit(testbed, plan)
  return {
    ...{ ...ledger, plan, selfEnded },
    deliveries: settlementsOf(testbed.workers),
    deliveriesOfOlder: settlementsOf(testbed.workers.filter(({ isOurs }) => !isOurs)),
    kills: crew.deaths.length,
    explanation: await testbed.explain([...ledger.lost, ...ledger.doubled, ...ledger.wrongDead]),
    durationMs: performance.now() - startedAt,
  }
}

const settlementsOf = (workers: readonly WorkerProcess[]): number =>
  workers.reduce((sum, { settled }) => sum + settled.length, 0)

/** Counts the events that have an effect or a published dead letter. Concurrent waits share one query. */
class Progress {
  readonly #testbed: Testbed
  readonly #total: number
  #dealtWith = 0
  #movedAtMs = performance.now()
  #look: Promise<void> | undefined

  constructor(testbed: Testbed, { events }: Plan) {
    this.#testbed = testbed
    this.#total = events.length
  }

  async reached(share: number): Promise<void> {
    await this.count(Math.floor(share * this.#total))
  }

  /** @throws if the count does not grow for {@link HANG_MS}, with the last log lines of the workers. */
  async count(least: number): Promise<void> {
    while (this.#dealtWith < least) {
      this.#look ??= this.#lookAgain()
      await this.#look
      if (performance.now() - this.#movedAtMs > HANG_MS) throw await this.#hang(least)
    }
  }

  async #lookAgain(): Promise<void> {
    // Postgres may be down; then the count stays as it is.
    const { rows } = await this.#testbed.pool
      .query<{ n: number }>(DEALT_WITH)
      .catch(() => ({ rows: [] }))
    const dealtWith = rows[0]?.n ?? this.#dealtWith
    if (dealtWith > this.#dealtWith) this.#movedAtMs = performance.now()
    this.#dealtWith = dealtWith
    await pause(LOOK_MS)
    this.#look = undefined
  }

  async #hang(least: number): Promise<Error> {
    const count = `${this.#dealtWith} of ${this.#total} events, wanted ${least}`
    return new Error(`nothing moves: ${count}\n${await this.#testbed.explain(['nobody'])}`)
  }
}

async function send(
  testbed: Testbed,
  { messages, events }: Plan,
  progress: Progress,
): Promise<void> {
  const ratio = events.length / messages.length
  for (let from = 0; from < messages.length; from += CHUNK) {
    await progress.count(Math.floor((from - BACKLOG) * ratio))
    const chunk = messages.slice(from, from + CHUNK)
    // A chunk that was not confirmed is sent again, as any producer does.
    const isSent = (): Promise<true> => testbed.send(chunk).then(() => true)
    await testbed.until(isSent, { what: 'the broker to take messages', deadlineMs: HANG_MS })
  }
}

/** A broker counts all that is left only if no worker has messages in flight. One more worker settles the rest. */
async function endAll(testbed: Testbed, crew: Crew): Promise<void> {
  crew.end()
  await Promise.all(crew.members.map((worker) => worker.stop()))
  for (let left = await depthOf(testbed); left > 0; left = await depthOf(testbed)) {
    const finisher = testbed.spawn('finisher')
    await finisher.start()
    // An empty queue is not enough: messages that were prefetched and not started go back when the worker stops.
    await testbed.until(async () => finisher.settled.length >= left, {
      what: `${left} messages to be settled`,
      deadlineMs: HANG_MS,
    })
    await testbed.drained(HANG_MS)
    await finisher.stop()
  }
}

const depthOf = async ({ queue }: Testbed): Promise<number> => (await queue?.depth()) ?? 0
