import { setTimeout as pause } from 'node:timers/promises'
import { TestStage } from '../support/test-stage.ts'
import { Crew } from '../support/workers/crew.ts'
import type { WorkerProcess } from '../support/workers/worker-process.ts'
import { audit, type Books, openBooks } from './books.ts'
import type { Plan } from './plan.ts'
import type { Servers } from './servers.ts'
import { rage } from './storm.ts'

export interface RoundResult extends Books {
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
  await using stage = await TestStage.open({
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
  await openBooks(stage)
  const crew = await Crew.of(WORKERS, stage, { scripts })
  const progress = new Progress(stage, plan)
  await Promise.all([
    send(stage, plan, progress),
    rage({ plan, crew, servers, broker, reached: (share) => progress.reached(share) }),
  ])
  await progress.reached(1)
  await stage.drained(HANG_MS)
  const selfEnded = crew.deaths.filter((how) => how !== 'SIGKILL').map(String)
  await endAll(stage, crew)
  const books = await audit(stage, plan)
  return {
    ...{ ...books, plan, selfEnded },
    deliveries: settlementsOf(stage.workers),
    deliveriesOfOlder: settlementsOf(stage.workers.filter(({ isOurs }) => !isOurs)),
    kills: crew.deaths.length,
    explanation: await stage.explain([...books.lost, ...books.doubled, ...books.wrongDead]),
    durationMs: performance.now() - startedAt,
  }
}

const settlementsOf = (workers: readonly WorkerProcess[]): number =>
  workers.reduce((sum, { settled }) => sum + settled.length, 0)

/** Counts the events that have an effect or a published dead letter. Concurrent waits share one query. */
class Progress {
  readonly #stage: TestStage
  readonly #total: number
  #dealtWith = 0
  #movedAtMs = performance.now()
  #look: Promise<void> | undefined

  constructor(stage: TestStage, { events }: Plan) {
    this.#stage = stage
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
    const { rows } = await this.#stage.pool
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
    return new Error(`nothing moves: ${count}\n${await this.#stage.explain(['nobody'])}`)
  }
}

async function send(
  stage: TestStage,
  { messages, events }: Plan,
  progress: Progress,
): Promise<void> {
  const ratio = events.length / messages.length
  for (let from = 0; from < messages.length; from += CHUNK) {
    await progress.count(Math.floor((from - BACKLOG) * ratio))
    const chunk = messages.slice(from, from + CHUNK)
    // A chunk that was not confirmed is sent again, as any producer does.
    const isSent = (): Promise<true> => stage.send(chunk).then(() => true)
    await stage.until(isSent, { what: 'the broker to take messages', deadlineMs: HANG_MS })
  }
}

/** A broker counts all that is left only if no worker has messages in flight. One more worker settles the rest. */
async function endAll(stage: TestStage, crew: Crew): Promise<void> {
  crew.end()
  await Promise.all(crew.members.map((worker) => worker.stop()))
  for (let left = await depthOf(stage); left > 0; left = await depthOf(stage)) {
    const finisher = stage.spawn('finisher')
    await finisher.start()
    // An empty queue is not enough: messages that were prefetched and not started go back when the worker stops.
    await stage.until(async () => finisher.settled.length >= left, {
      what: `${left} messages to be settled`,
      deadlineMs: HANG_MS,
    })
    await stage.drained(HANG_MS)
    await finisher.stop()
  }
}

const depthOf = async ({ queue }: TestStage): Promise<number> => (await queue?.depth()) ?? 0
