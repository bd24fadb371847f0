import type { Consumption } from '@onceward/core'
import { Clock, type HandMadeGuard, handMadeGuard } from '@onceward/testing/adapter'
import { afterEach, describe, expect, test, vi } from 'vitest'
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
import { wrapKafka } from './wrap.ts'

const PARTITIONS = 3
const STEP_MS = 50
const ROUNDS = 20
/** Requests that hang end, joins wait for members that are gone, and a member that hangs is replaced 80 s later. */
const HEALED_MS = 300_000
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
  consumption: Pick<Consumption, 'drain' | 'health'> | undefined
  /** Of a wrapped consumer: its last id in the group. */
  memberId: string
  settled: number
}

class Play {
  readonly live = new LiveCluster(PARTITIONS)
  readonly #clock = new Clock()
  readonly #random: () => number
  /** Event keys of the records that were processed. */
  readonly #done = new Set<string>()
  #processes: readonly Process[] = []
  readonly #start: (made: Process) => Promise<void>

  constructor(seed: number, start: (made: Process) => Promise<void>) {
    this.#start = start
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
    const own = { client, consumption: undefined, memberId: '', settled: 0 }
    const made: Process = { ...handMadeGuard({ concurrency: 4 }), ...own }
    this.#processes = [...this.#processes, made]
    void this.#start(made)
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

  /** Of each process: whether its health says so. */
  get running(): readonly boolean[] {
    return this.#processes.map(({ consumption }) => consumption?.health().state === 'running')
  }

  /** Of each process with a wrapped consumer: whether it is in the group. */
  get members(): readonly boolean[] {
    return this.#processes.map(({ memberId }) => this.live.group.members.includes(memberId))
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

const GROUP = 'billing'

async function consumed(made: Process): Promise<void> {
  const options = { topics: [TOPIC], groupId: GROUP, fromBeginning: true }
  made.consumption = await consumeKafka(made.client.kafka, made.guard, options)
}

/** As a user would who tries until it succeeds. */
async function wrapped(made: Process): Promise<void> {
  const consumer = made.client.kafka.consumer({ groupId: GROUP })
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    made.memberId = payload.memberId
  })
  const config = wrapKafka(consumer, made.guard)
  const tried = async (attempt: () => Promise<void>): Promise<void> => {
    await attempt().catch(() => tried(attempt))
  }
  await tried(() => consumer.connect())
  await consumer.subscribe({ topics: [TOPIC], fromBeginning: true })
  await consumer.run(config)
  made.consumption = config.consumption
}

/** Faults of some requests or of all, and what else happens to a topic and its consumers. */
async function faults(play: Play, isRecreated: boolean): Promise<void> {
  const { live } = play
  const share = play.pick([0, 0.02, 0.1, 0.3, 0.6])
  const hit: ReadonlySet<Request> = new Set(
    play.chance(0.5) ? REQUESTS : REQUESTS.filter(() => play.chance(0.4)),
  )
  live.fault = (request) => (hit.has(request) && play.chance(share) ? play.pick(FAULTS) : undefined)
  for (let round = 0; round < ROUNDS; round += 1) {
    if (play.chance(0.5)) live.append(play.pick([...live.logs.keys()]))
    if (play.chance(0.2)) live.group.forgetAll()
    if (isRecreated && play.chance(0.2)) live.recreate()
    if (play.chance(0.03)) live.addPartition()
    if (play.chance(0.05)) play.start()
    if (play.chance(0.05)) play.kill()
    if (play.chance(0.1)) live.moveLeader(play.pick([...live.logs.keys()]))
    live.isStalled = play.chance(0.05)
    live.down = play.chance(0.1) ? play.pick(['1', '2']) : undefined
    await play.pass(play.chance(0.1) ? 20_000 : 1_000)
  }
  Object.assign(live, { fault: () => undefined, isStalled: false, down: undefined })
}

const SEEDS: readonly number[] = Array.from(
  { length: Number(process.env['SEEDS'] ?? 15) },
  (_, index) => Number(process.env['FROM'] ?? 1) + index,
)

async function played(
  seed: number,
  start: (made: Process) => Promise<void>,
  isRecreated = false,
): Promise<Play> {
  const play = new Play(seed, start)
  play.start()
  if (play.chance(0.7)) play.start()
  await play.pass(5_000)
  expect(play.live.group.state).toBe('stable')
  await faults(play, isRecreated)
  // Half of the time nothing comes that would show a consumer that it hangs.
  if (play.chance(0.5)) for (const partition of play.live.logs.keys()) play.live.append(partition)
  await play.pass(HEALED_MS)
  return play
}

describe('after faults at random', { timeout: 60_000 }, () => {
  // Red when a member hangs, or is none and does not notice: kafkajs has such states.
  test.each(SEEDS)(
    'all consumers are in their group, and all records are done and committed: %i',
    async (seed) => {
      const play = await played(seed, consumed, seed % 2 === 0)
      expect(play.state).toEqual(play.well)
      expect(await play.end()).toEqual({ members: [], timers: new Set([0]) })
    },
  )

  // Red when one that hangs is running: nobody but its health can tell that nothing is consumed.
  test.each(SEEDS)('health says which wrapped consumers are in their group: %i', async (seed) => {
    const play = await played(seed, wrapped)
    expect(play.running).toEqual(play.members)
    if (play.running.every((isRunning) => isRunning)) expect(play.state).toEqual(play.well)
  })
})
