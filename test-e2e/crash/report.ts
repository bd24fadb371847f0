import { isExact } from './ledger.ts'
import type { Plan } from './plan.ts'
import type { RoundResult } from './round.ts'

/** The sums of all rounds. */
export interface Totals {
  readonly seed: number
  readonly rounds: number
  readonly events: number
  readonly deliveries: number
  readonly deliveriesOfOlder: number
  readonly kills: number
  readonly freezes: number
  readonly postgresRestarts: number
  readonly redisLosses: number
  readonly brokerKills: number
  readonly deadLetters: number
  readonly lost: number
  readonly doubled: number
  readonly wrongBalances: number
  readonly wrongDeadLetters: number
  /** Processes that ended without being killed. */
  readonly selfEnded: number
  readonly durationMs: number
}

export function totalsOf(seed: number, rounds: readonly RoundResult[]): Totals {
  const sum = (of: (round: RoundResult) => number): number =>
    rounds.reduce((total, round) => total + of(round), 0)
  return {
    seed,
    rounds: rounds.length,
    events: sum(({ plan }) => plan.events.length),
    deliveries: sum(({ deliveries }) => deliveries),
    deliveriesOfOlder: sum(({ deliveriesOfOlder }) => deliveriesOfOlder),
    kills: sum(({ kills }) => kills),
    freezes: sum(({ plan }) => plan.blows.workers.filter(({ kind }) => kind === 'freeze').length),
    postgresRestarts: sum(({ plan }) => plan.blows.postgres.length),
    redisLosses: sum(({ plan }) => plan.blows.redis.length),
    brokerKills: sum(({ plan }) => plan.blows.broker.length),
    deadLetters: sum(({ dead }) => dead),
    lost: sum(({ lost }) => lost.length),
    doubled: sum(({ doubled }) => doubled.length),
    wrongBalances: sum(({ wrongBalances }) => wrongBalances.length),
    wrongDeadLetters: sum(({ wrongDead }) => wrongDead.length),
    selfEnded: sum(({ selfEnded }) => selfEnded.length),
    durationMs: Math.round(sum(({ durationMs }) => durationMs)),
  }
}

export const isFine = (round: RoundResult): boolean =>
  isExact(round) && round.selfEnded.length === 0

export function lineOf({ plan, ...round }: RoundResult): string {
  const { broker, seed, transaction, hasRedis, events } = plan
  const parts = [
    `seed ${seed}: ${broker}, ${transaction}${hasRedis ? ', Redis' : ''}`,
    `${events.length} events, ${round.deliveries} deliveries, ${round.kills} kills`,
    `${round.lost.length} lost, ${round.doubled.length} doubled`,
    `${(round.durationMs / 1_000).toFixed(1)} s`,
  ]
  return parts.join(' · ')
}

/** What went wrong, and the command that repeats the round. */
export function failureOf({ plan, ...round }: RoundResult): string {
  const { lost, doubled, wrongBalances, wrongDead, selfEnded, explanation } = round
  const findings = { lost, doubled, wrongBalances, wrongDead, selfEnded }
  return `${JSON.stringify(findings)}\n${explanation}\nonce more: ${again(plan)}`
}

export function again({ broker, seed, events, beside }: Plan): string {
  const older = beside === undefined ? '' : ` --beside ${beside}`
  return `npm run crash -- --broker ${broker} --seed ${seed} --events ${events.length} --rounds 1${older}`
}
