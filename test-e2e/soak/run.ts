import { setTimeout as pause } from 'node:timers/promises'
import type { BrokerName } from '../brokers/index.ts'
import { type Blow, blowOf, planRound } from '../crash/plan.ts'
import { Servers } from '../crash/servers.ts'
import { STRIKES } from '../crash/storm.ts'
import { type Dice, diceOf } from '../support/dice.ts'
import type { Order } from '../support/workers/protocol.ts'
import type { SoakOptions } from './options.ts'
import { Post } from './post.ts'
import { type Trend, trendsOf } from './trend.ts'

/** The result of one broker's worker. */
export interface SoakResult {
  readonly broker: BrokerName
  readonly events: number
  readonly lost: readonly string[]
  readonly doubled: readonly string[]
  readonly wrongDead: readonly string[]
  /** Warnings of Node, and whatever libraries print. */
  readonly stderr: string
  readonly isAlive: boolean
  readonly trends: readonly Trend[]
}

export interface SoakReport {
  readonly cycles: number
  readonly blows: number
  readonly durationMs: number
  readonly results: readonly SoakResult[]
}

/** The blows of a cycle fall within this time, so that they meet its events. */
const STORM_MS = 4_000

/**
 * One worker per broker, all on one Postgres and one Redis. In each cycle they get events while a server of each
 * kind is killed or emptied. When all events are settled, the memory and the handles of the workers are measured.
 *
 * @throws if a cycle does not end.
 */
export async function soak(
  { brokers, minutes, cycles, events, seed }: SoakOptions,
  onCycle: (cycle: number, posts: readonly Post[]) => void,
): Promise<SoakReport> {
  const startedAt = performance.now()
  const goesOn = (played: number): boolean =>
    cycles === undefined ? performance.now() - startedAt < minutes * 60_000 : played < cycles
  await using servers = await Servers.start()
  await using opened = new AsyncDisposableStack()
  const posts = await Promise.all(
    brokers.map(async (name) => opened.use(await Post.open(name, servers))),
  )
  let cycle = 0
  let blows = 0
  for (; goesOn(cycle); cycle += 1) {
    const storm = stormOf(diceOf(seed + cycle), posts, servers)
    blows += storm.length
    await Promise.all([...storm.map((strike) => strike()), ...posts.map((post) => play(post))])
    await Promise.all(posts.map((post) => post.sample(performance.now() - startedAt)))
    onCycle(cycle, posts)
  }
  const durationMs = performance.now() - startedAt
  return { cycles: cycle, blows, durationMs, results: await Promise.all(posts.map(resultOf)) }

  /** Each cycle has ids of its own, so that an effect of an earlier cycle is found. */
  function play(post: Post): Promise<void> {
    const plan = planRound({ seed: seed + cycle, broker: post.name, events })
    const named = (order: Order): Order => ({ ...order, id: `${cycle}-${order.id}` })
    return post.play(plan.messages.map(named), plan.events.map(named))
  }
}

function stormOf(
  dice: Dice,
  posts: readonly Post[],
  servers: Servers,
): readonly (() => Promise<void>)[] {
  const broker = dice.pick(posts)?.broker
  const due = (blow: Blow, strike: (blow: Blow) => Promise<void>) => async () => {
    await pause(blow.at * STORM_MS)
    await strike(blow)
  }
  return [
    due(blowOf('postgres', dice), (blow) => STRIKES.postgres(blow, { servers })),
    due(blowOf('redis', dice), (blow) => STRIKES.redis(blow, { servers })),
    ...(broker === undefined
      ? []
      : [due(blowOf('broker', dice), (blow) => STRIKES.broker(blow, { broker }))]),
  ]
}

async function resultOf(post: Post): Promise<SoakResult> {
  const { name, events, lost, doubled, worker, samples } = post
  return {
    ...{ broker: name, events, lost, doubled },
    wrongDead: await post.wrongDead(),
    stderr: worker.stderr,
    isAlive: worker.isAlive,
    trends: trendsOf(samples),
  }
}
