import { setTimeout as pause } from 'node:timers/promises'
import { TestStage } from '../support/test-stage.ts'
import { Crew } from '../support/workers/crew.ts'
import { audit, type Books, openBooks } from './books.ts'
import type { Plan } from './plan.ts'
import type { Servers } from './servers.ts'
import { rage } from './storm.ts'

export interface RoundResult extends Books {
  readonly plan: Plan
  /** Settlements that workers told of; one in hand at a SIGKILL is not among them. */
  readonly deliveries: number
  readonly kills: number
  /** How processes ended that nobody killed, with what they said last. */
  readonly selfEnded: readonly string[]
  /** What is known of the events that went wrong. */
  readonly explanation: string
  readonly durationMs: number
}

const WORKERS = 3
/** Sent and not yet dealt with, at most about so many: queues stay short, and blows fall while others send. */
const BACKLOG = 1_000
const CHUNK = 100
/** Between two looks at how far it is. */
const LOOK_MS = 100
/** So long without progress is a hang: a busy machine may take a minute to bring a broker back. */
const HANG_MS = 240_000

const DEALT_WITH = `select ((select count(distinct id) from effects)
  + (select count(*) from onceward.failed_events where published))::int as n`

/** Three workers, one queue, and everything that the plan has in store for them; then the books are read. */
export async function playRound(plan: Plan, servers: Servers): Promise<RoundResult> {
  const startedAt = performance.now()
  const broker = await servers.broker(plan.broker)
  await using stage = await TestStage.open({
    queue: await broker.createQueue(),
    databaseUrl: await servers.postgres.createDatabase(),
    worker: {
      transaction: plan.transaction,
      ...{ leaseMs: 3_000, deadlineMs: 5_000, longestDeferMs: 2_000, concurrency: 4 },
      // A blow may hit an event that runs alone, and then it counts.
      attempts: 10,
      ...(plan.hasRedis
        ? { redisPort: servers.redis.connection.port, redisBudgetMs: 20 }
        : undefined),
    },
  })
  await openBooks(stage)
  const crew = await Crew.of(WORKERS, stage)
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
    deliveries: stage.workers.reduce((sum, { settled }) => sum + settled.length, 0),
    kills: crew.deaths.length,
    explanation: await stage.explain([...books.lost, ...books.doubled, ...books.wrongDead]),
    durationMs: performance.now() - startedAt,
  }
}

/** How many of the events have an effect, or a dead letter that is published. One question answers all who wait. */
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

  /** @throws when nothing has moved for {@link HANG_MS}, with what the workers said last. */
  async count(least: number): Promise<void> {
    while (this.#dealtWith < least) {
      this.#look ??= this.#lookAgain()
      await this.#look
      if (performance.now() - this.#movedAtMs > HANG_MS) throw await this.#hang(least)
    }
  }

  async #lookAgain(): Promise<void> {
    // Postgres may be away: then nothing moves.
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
    // As any producer: what was not confirmed is sent again.
    const isSent = (): Promise<true> => stage.send(chunk).then(() => true)
    await stage.until(isSent, { what: 'the broker to take messages', deadlineMs: HANG_MS })
  }
}

/** Only when nobody has anything in hand, every broker tells all that is left; one more worker settles that. */
async function endAll(stage: TestStage, crew: Crew): Promise<void> {
  crew.end()
  await Promise.all(crew.members.map((worker) => worker.stop()))
  for (let left = await depthOf(stage); left > 0; left = await depthOf(stage)) {
    const finisher = stage.spawn('finisher')
    await finisher.start()
    // An empty queue would not do: what is in hand and not begun goes back when the worker stops.
    await stage.until(async () => finisher.settled.length >= left, {
      what: `${left} messages to be settled`,
      deadlineMs: HANG_MS,
    })
    await stage.drained(HANG_MS)
    await finisher.stop()
  }
}

const depthOf = async ({ queue }: TestStage): Promise<number> => (await queue?.depth()) ?? 0
