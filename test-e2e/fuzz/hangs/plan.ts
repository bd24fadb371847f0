import type { DependencyOutage } from '@onceward/core'
import { BROKER_NAMES, BROKERS, type BrokerName } from '../../brokers/index.ts'
import { type Dice, diceOf } from '../../support/dice.ts'

export const DEPENDENCIES = ['postgres', 'redis', 'broker', 'publish'] as const
/** What stops answering. `publish`: the connections that publish dead letters, and on RabbitMQ deferred copies. */
export type Dependency = (typeof DEPENDENCIES)[number]

/** How `health().outages` calls each. */
export const NAMES: Readonly<Record<Dependency, DependencyOutage['dependency']>> = {
  postgres: 'inbox',
  redis: 'leases',
  broker: 'broker',
  publish: 'dead-letters',
}

/** One hang, as plain data. */
export interface Plan {
  readonly adapter: BrokerName
  /** The user's own loop calls the wrap. */
  readonly isWrapped: boolean
  readonly transaction: 'each' | 'batch'
  readonly hasLeases: boolean
  readonly dependency: Dependency
  /** `up`: requests do not arrive. `down`: they are carried out and not answered. */
  readonly direction: 'up' | 'down' | 'both'
  /** Of those that are open when the hang begins. */
  readonly connections: 'one' | 'all'
  /** Connections that are opened during the hang: they work, are accepted and silent, or are not accepted. */
  readonly arrivals: 'work' | 'silent' | 'ignored'
  /** At least: it goes on until what is healthy is done and the hang was noticed. */
  readonly forMs: number
  /** What was held back arrives, or the connections are reset. */
  readonly ending: 'release' | 'cut'
  /** The consumer is drained and its guard closed during the hang. */
  readonly drains: boolean
  /** Events that each side gets during the hang. */
  readonly load: number
  /** Of the subject's, those whose handler fails once, and those that are dead-lettered. */
  readonly flaky: number
  readonly fatal: number
  /** A handler waits so long inside its transaction. */
  readonly takesMs: number
}

/** What the handlers of healthy events take at most, one after the other, each run again in smaller parts. */
export const workMs = ({ load, flaky, fatal, takesMs }: Plan): number =>
  3 * (load + flaky + fatal) * takesMs

/** What a plan of a certain place in a sample is fixed to. */
export type Fixed = Partial<Pick<Plan, 'adapter' | 'dependency' | 'forMs' | 'load' | 'takesMs'>>

const pick = <Item>(dice: Dice, ...items: readonly Item[]): Item => dice.pick(items) as Item

/** The plans of one seed are played side by side. */
export function drawPlans(seed: number, fixed: readonly Fixed[]): readonly Plan[] {
  const dice = diceOf(seed)
  return fixed.map((each) => drawPlan(dice, each))
}

function drawPlan(dice: Dice, fixed: Fixed): Plan {
  const adapter = fixed.adapter ?? pick(dice, ...BROKER_NAMES)
  const dependency = fixed.dependency ?? pick(dice, ...DEPENDENCIES)
  // On some brokers a wrapped consumer publishes on the connection it consumes from. Then both would hang together.
  const mayWrap = !(
    dependency === 'publish' && BROKERS[adapter].traits.wrapPublishesWhereItConsumes
  )
  return {
    adapter,
    dependency,
    isWrapped: pick(dice, true, false, false) && mayWrap,
    transaction: pick(dice, 'each', 'batch'),
    hasLeases: pick(dice, true, false) || dependency === 'redis',
    direction: pick(dice, 'up', 'down', 'both'),
    connections: pick(dice, 'one', 'all', 'all'),
    arrivals: pick(dice, 'work', 'silent', 'silent', 'ignored'),
    forMs: fixed.forMs ?? pick(dice, 2_000, 12_000, 30_000),
    ending: pick(dice, 'release', 'cut'),
    drains: pick(dice, true, false, false),
    load: fixed.load ?? pick(dice, 5, 20, 60),
    flaky: pick(dice, 0, 2),
    fatal: pick(dice, 1, 2, 6),
    takesMs: fixed.takesMs ?? pick(dice, 0, 0, 20, 100),
  }
}

/** Whether the hang leaves the dependency no way to answer, so that it must be named. */
const isTotal = ({ connections, arrivals }: Plan): boolean =>
  connections === 'all' && arrivals !== 'work'

/** Whether the subject's events that neither fail nor die must pass during the hang. */
export const isSubjectHealthy = ({ dependency }: Plan): boolean =>
  dependency === 'redis' || dependency === 'publish'

/** Whether the health of the subject must name the dependency. */
export const mustBeNamed = (plan: Plan): boolean =>
  // A wrap does not see the receives, which are the user's.
  isTotal(plan) && !(plan.isWrapped && plan.dependency === 'broker')
