import type { Delivery, Guard, Settlement } from '@onceward/core'
import { openCase, type ZooCase } from './case.ts'
import type { History, Settled } from './history.ts'
import type { Plan } from './plan.ts'
import { endsWithin } from './shared.ts'
import type { Testbed } from './testbed.ts'

/** Rounds that any rule allows an event to need, with some to spare. */
const roundsOf = ({ attempts, events }: Plan): number => 8 + 5 * attempts + events.length
/** No case may take longer, ms. It is only waited for when something hangs. */
const LONGEST_MS = 60_000
/** Longer than any wait that a row or a lease may cause. */
const ROUND_MS = 60_000

/** Plays a case: delivers every event until it has ended, and once more. */
export async function playPlan(testbed: Testbed, plan: Plan): Promise<History> {
  const zoo = await openCase(testbed, plan)
  const rounds: Rounds = { zoo, settled: [], again: [], unended: new Set(plan.events.keys()) }
  const playing = playRounds(rounds, plan)
  const isInTime = await endsWithin(playing, LONGEST_MS)
  if (!isInTime) zoo.surprises.push('a call did not end')
  const ended = await zoo.close(isInTime)
  const { settled, again, unended } = rounds
  return { plan, settled, again, unended: [...unended], ...ended }
}

export interface Rounds {
  readonly zoo: Pick<ZooCase, 'surprises' | 'delivery' | 'pass'> & {
    readonly guards: readonly Pick<Guard, 'processBatch'>[]
  }
  /** The first round is a redelivery, too. */
  readonly isAgain?: boolean | undefined
  readonly settled: Settled[]
  readonly again: Settled[]
  readonly unended: Set<number>
}

export async function playRounds(rounds: Rounds, plan: Plan): Promise<void> {
  const { zoo, settled, again, unended, isAgain = false } = rounds

  for (let round = 1; unended.size > 0 && round <= roundsOf(plan); round += 1) {
    const deliveries = [...unended].flatMap((event) =>
      Array.from({ length: plan.events[event]?.copies ?? 1 }, () => event),
    )
    const answers = await deliver(zoo, plan, deliveries, isAgain || round > 1)
    for (const { event, settlement } of answers) {
      settled.push({ event, round, settlement })
      if (settlement.kind === 'ack' || settlement.kind === 'dead-letter') unended.delete(event)
    }
    await zoo.pass(ROUND_MS)
  }
  if (unended.size > 0) return
  for (const each of await deliver(zoo, { ...plan, workers: 1 }, [...plan.events.keys()], true)) {
    again.push({ ...each, round: 0 })
  }
}

type Answer = Pick<Settled, 'event' | 'settlement'>

async function deliver(
  zoo: Rounds['zoo'],
  plan: Pick<Plan, 'chunk' | 'isAtOnce' | 'workers'>,
  events: readonly number[],
  isAgain: boolean,
): Promise<readonly Answer[]> {
  const calls = zoo.guards
    .slice(0, plan.workers)
    .map((guard) => () => deliverTo({ zoo, guard, plan, isAgain }, events))
  return (await Promise.all(calls.map((call) => call()))).flat()
}

interface Call {
  readonly zoo: Rounds['zoo']
  readonly guard: Pick<Guard, 'processBatch'>
  readonly plan: Pick<Plan, 'chunk' | 'isAtOnce'>
  readonly isAgain: boolean
}

async function deliverTo(call: Call, events: readonly number[]): Promise<readonly Answer[]> {
  const { chunk, isAtOnce } = call.plan
  const chunks: (readonly number[])[] = []
  for (let at = 0; at < events.length; at += chunk) chunks.push(events.slice(at, at + chunk))
  if (isAtOnce) return (await Promise.all(chunks.map((each) => callOnce(call, each)))).flat()
  const answers: Answer[] = []
  for (const each of chunks) answers.push(...(await callOnce(call, each)))
  return answers
}

async function callOnce(
  { zoo, guard, isAgain }: Call,
  events: readonly number[],
): Promise<readonly Answer[]> {
  const deliveries = events.map((event): Delivery => {
    const delivery = zoo.delivery(event)
    return isAgain ? { ...delivery, redelivered: true } : delivery
  })
  let settlements: readonly Settlement[]
  try {
    settlements = await guard.processBatch(deliveries)
  } catch (error) {
    zoo.surprises.push(`processBatch rejected: ${String(error)}`)
    return []
  }
  if (settlements.length !== events.length || settlements.includes(undefined as never)) {
    zoo.surprises.push(`${events.length} deliveries got ${settlements.length} settlements`)
  }
  return settlements.map((settlement, index) => ({ event: events[index] as number, settlement }))
}
