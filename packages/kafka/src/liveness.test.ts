import type { Consumption } from '@onceward/core'
import { Clock, type HandMadeGuard, handMadeGuard } from '@onceward/testing/adapter'
import { afterEach, expect, test, vi } from 'vitest'
import { consumeKafka } from './consume.ts'
import {
  type Fault,
  type LiveClient,
  LiveCluster,
  REQUESTS,
  type Request,
  TOPIC,
} from './fixtures/live-cluster.ts'
import { ack } from './fixtures/member.ts'

const PARTITIONS = 3
const STEP_MS = 50
const ROUNDS = 20
/** After the last fault. A member that hangs is replaced after 80 s at most, and the next one may have to wait for a session. */
const HEALED_MS = 180_000
const FAULTS: readonly Fault[] = [
  ...(['refused', 'answer-lost', 'request-hangs', 'answer-hangs'] as const),
  ...(['NOT_COORDINATOR_FOR_GROUP', 'GROUP_COORDINATOR_NOT_AVAILABLE'] as const),
  ...(['GROUP_LOAD_IN_PROGRESS', 'REBALANCE_IN_PROGRESS', 'UNKNOWN_MEMBER_ID'] as const),
  'ILLEGAL_GENERATION',
]

afterEach(() => {
  vi.restoreAllMocks()
})

/** Numbers from 0 to 1 that a seed repeats. */
function randomOf(seed: number): () => number {
  let state = Math.imul(seed, 2_654_435_761)
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

/** kafkajs takes its time and its chance from here. */
function virtual(clock: Clock, random: () => number): void {
  const set = (run: (...args: readonly unknown[]) => void, ms = 0, ...args: readonly unknown[]) =>
    clock.runtime.setTimer(() => run(...args), Math.max(ms, 1))
  const clear = (cancel: unknown): void => {
    if (typeof cancel === 'function') cancel()
  }
  vi.spyOn(globalThis, 'setTimeout').mockImplementation(set as never)
  vi.spyOn(globalThis, 'clearTimeout').mockImplementation(clear as never)
  vi.spyOn(Date, 'now').mockImplementation(() => clock.nowMs)
  vi.spyOn(Math, 'random').mockImplementation(random)
}

/** A process that consumes the topic. */
interface Process extends HandMadeGuard {
  readonly client: LiveClient
  consumption: Consumption | undefined
  settled: number
}

class Play {
  readonly live = new LiveCluster(PARTITIONS)
  readonly #clock = new Clock()
  readonly #random: () => number
  /** Event keys of the records that were processed. */
  readonly #done = new Set<string>()
  #processes: readonly Process[] = []

  constructor(seed: number) {
    this.#random = randomOf(seed)
    virtual(this.#clock, this.#random)
  }

  chance(share: number): boolean {
    return this.#random() < share
  }

  pick<One>(among: readonly One[]): One {
    return among[Math.floor(this.#random() * among.length)] as One
  }

  start(): void {
    if (this.#processes.length === 3) return
    const client = this.live.client()
    const made: Process = {
      ...handMadeGuard({ concurrency: 4 }),
      client,
      consumption: undefined,
      settled: 0,
    }
    this.#processes = [...this.#processes, made]
    const options = { topics: [TOPIC], groupId: 'billing', fromBeginning: true }
    void consumeKafka(client.kafka, made.guard, options).then((consumption) => {
      made.consumption = consumption
    })
  }

  kill(): void {
    const dead = this.pick(this.#processes)
    dead.client.kill()
    this.#processes = this.#processes.filter((each) => each !== dead)
    if (this.#processes.length === 0) this.start()
  }

  async pass(ms: number): Promise<void> {
    for (let passed = 0; passed < ms; passed += STEP_MS) {
      await this.#clock.advance(STEP_MS)
      for (const each of this.#processes) {
        await each.clock.advance(STEP_MS)
        this.#settle(each)
      }
    }
  }

  #settle(made: Process): void {
    while (made.settled < made.handed.length && this.chance(0.8)) {
      const one = made.handed[made.settled]
      made.settled += 1
      one?.settle(ack)
      this.#done.add(one?.delivery.headers['idempotency-key'] ?? '')
    }
  }

  /** What everyone would see of a group that is well. */
  get state(): object {
    const { committed, group, logs } = this.live
    const keys = logs.flat().map(({ headers }) => String(headers?.['Idempotency-Key']))
    return {
      missing: keys.filter((key) => !this.#done.has(key)),
      uncommitted: logs.map((log, at) => log.length - Math.max(0, Number(committed[at]))),
      group: [group.state, group.members.length],
      health: this.#processes.map(({ consumption }) => consumption?.health().state),
    }
  }

  get well(): object {
    const { length } = this.#processes
    return {
      ...{ missing: [], uncommitted: this.live.logs.map(() => 0) },
      ...{ group: ['stable', length], health: this.#processes.map(() => 'running') },
    }
  }

  /** Stops all processes. Answers what is left. */
  async end(): Promise<object> {
    const drains = this.#processes.map(({ consumption }) => consumption?.drain())
    await this.pass(15_000)
    await Promise.all(drains)
    const timers = this.#processes.map(({ clock }) => clock.timers)
    return { members: this.live.group.members, timers: new Set(timers) }
  }
}

/** Faults of some requests or of all, and what else happens to a topic and its consumers. */
async function faults(play: Play): Promise<void> {
  const { live } = play
  const share = play.pick([0, 0.02, 0.1, 0.3, 0.6])
  const hit: ReadonlySet<Request> = new Set(
    play.chance(0.5) ? REQUESTS : REQUESTS.filter(() => play.chance(0.4)),
  )
  const isRecreated = play.chance(0.5)
  live.fault = (request) => (hit.has(request) && play.chance(share) ? play.pick(FAULTS) : undefined)
  for (let round = 0; round < ROUNDS; round += 1) {
    if (play.chance(0.5)) live.append(play.pick([...live.logs.keys()]))
    if (play.chance(0.2)) live.group.forgetAll()
    if (isRecreated && play.chance(0.2)) live.recreate()
    if (play.chance(0.03)) live.addPartition()
    if (play.chance(0.05)) play.start()
    if (play.chance(0.05)) play.kill()
    live.isStalled = play.chance(0.05)
    await play.pass(play.chance(0.1) ? 20_000 : 1_000)
  }
  Object.assign(live, { fault: () => undefined, isStalled: false })
}

// Red when a member of the group hangs, or is none and does not notice, after faults that are over: kafkajs has such states.
test.each(
  Array.from(
    { length: Number(process.env['SEEDS'] ?? 20) },
    (_, index) => Number(process.env['FROM'] ?? 1) + index,
  ),
)(
  'after faults at random all consumers are in their group, and all records are done and committed: %i',
  { timeout: 60_000 },
  async (seed) => {
    const play = new Play(seed)
    play.start()
    if (play.chance(0.7)) play.start()
    await play.pass(5_000)
    await faults(play)
    // Half of the time nothing comes that would show a consumer that it hangs.
    if (play.chance(0.5)) for (const partition of play.live.logs.keys()) play.live.append(partition)
    await play.pass(HEALED_MS)
    expect(play.state).toEqual(play.well)
    expect(await play.end()).toEqual({ members: [], timers: new Set([0]) })
  },
)
