import type { BrokerName } from '../brokers/index.ts'
import { type Dice, diceOf } from '../support/dice.ts'
import type { Order } from '../support/workers/protocol.ts'

/** The targets of blows, and the kinds of blows for each. */
export const BLOWS = {
  /** SIGKILL with a replacement process, or SIGSTOP for a while. */
  workers: ['kill', 'kill', 'kill', 'freeze'],
  /** An orderly restart, or SIGKILL. */
  postgres: ['restart', 'kill'],
  /** FLUSHALL, or SIGKILL with a restart without data after a while. */
  redis: ['flush', 'kill'],
  broker: ['kill'],
} as const
export type Target = keyof typeof BLOWS

export interface Blow {
  /** Due when this share of the events has an effect or a dead letter. */
  readonly at: number
  readonly kind: 'kill' | 'freeze' | 'restart' | 'flush'
  /** Which worker, as a number from 0 to 1. */
  readonly whom: number
  /** How long the target stays frozen or down, ms. */
  readonly forMs: number
}

export interface Plan {
  readonly seed: number
  readonly broker: BrokerName
  readonly transaction: 'each' | 'batch'
  readonly hasRedis: boolean
  /** Every other worker runs the code of this commit. */
  readonly beside?: string | undefined
  /** In the order in which they are sent. Some orders are sent twice. */
  readonly messages: readonly Order[]
  readonly events: readonly Order[]
  readonly blows: { readonly [Each in Target]: readonly Blow[] }
}

export interface PlanOptions {
  readonly seed: number
  readonly broker: BrokerName
  readonly events: number
  /** Every other worker runs the code of this commit. Default: all run that of this checkout. */
  readonly beside?: string | undefined
}

/** Blows for a thousand events; each target is struck at least once. */
const PER_THOUSAND: { readonly [Each in Target]: number } = {
  workers: 4,
  postgres: 1.5,
  redis: 2,
  broker: 0.25,
}

export const ACCOUNTS = 1_000

/** One in ten is sent twice, one in fifty fails in its first attempt, one in two hundred in every attempt. */
const COPIES = 0.1
const FAIL_ONCE = 0.02
const FATAL = 0.005
/** The largest distance between a copy and its original, in messages. */
const APART = 500

/** Everything random about a round. The same seed makes the same plan, but the timing differs between runs. */
export function planRound({ seed, broker, events: count, beside }: PlanOptions): Plan {
  const dice = diceOf(seed)
  const transaction = dice.next() < 0.5 ? 'each' : 'batch'
  const hasRedis = dice.next() < 0.75
  const events = Array.from({ length: count }, (_, index) => orderOf(index, dice))
  const blowsOf = (target: Target): readonly Blow[] => {
    const blows = Math.max(1, Math.round((PER_THOUSAND[target] * count) / 1_000))
    return Array.from({ length: blows }, () => blowOf(target, dice)).toSorted((a, b) => a.at - b.at)
  }
  return {
    ...{ seed, broker, transaction, hasRedis, beside, events },
    messages: withCopies(events, dice),
    blows: {
      workers: firstKills(blowsOf('workers')),
      postgres: blowsOf('postgres'),
      redis: hasRedis ? blowsOf('redis') : [],
      broker: blowsOf('broker'),
    },
  }
}

function orderOf(index: number, dice: Dice): Order {
  const fate = dice.next()
  const charge = {
    account: Math.floor(dice.next() * ACCOUNTS),
    cents: 1 + Math.floor(dice.next() * 10_000),
  }
  const order = { id: `order-${index}`, takesMs: Math.floor(dice.next() * 4), charge }
  if (fate < FATAL) return { ...order, deed: 'fatal-until-mended' }
  return fate < FATAL + FAIL_ONCE ? { ...order, deed: 'fail-once' } : order
}

export const isFatal = ({ deed }: Order): boolean => deed === 'fatal-until-mended'

/** A random blow at this target. */
export function blowOf(target: Target, dice: Dice): Blow {
  return {
    // No blow falls on the last tenth of the events, so that the round can end.
    at: dice.next() * 0.9,
    kind: dice.pick(BLOWS[target]) ?? 'kill',
    whom: dice.next(),
    forMs: 200 + dice.next() * 3_000,
  }
}

/** The first blow at workers is a kill: a round in which no worker dies proves too little. */
const firstKills = (blows: readonly Blow[]): readonly Blow[] =>
  blows.map((blow, index) => (index === 0 ? { ...blow, kind: 'kill' } : blow))

function withCopies(events: readonly Order[], dice: Dice): readonly Order[] {
  const placed = events.map((order, index) => ({ order, at: index }))
  const copies = placed
    .filter(() => dice.next() < COPIES)
    .map(({ order, at }) => ({ order, at: at + dice.next() * APART }))
  return [...placed, ...copies].toSorted((a, b) => a.at - b.at).map(({ order }) => order)
}
