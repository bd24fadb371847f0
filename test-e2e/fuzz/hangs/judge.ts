import { RUN_DEFAULTS } from '@onceward/core/adapter'
import { BROKERS } from '../../brokers/index.ts'
import type { Plan } from './plan.ts'
import { mustBeNamed, NAMES } from './plan.ts'
import { DEADLINE_MS, POOL_SIZE } from './side.ts'

/** A busy machine may take this long for what takes none. */
const NOISE_MS = 30_000
/** The longest that one call to a broker, a store or a dead-letter place takes before it is given up. */
const CALL_MS = 15_000
/** What running handlers get after their signals were aborted. */
const GRACE_MS = 2_000

/** Healthy events pass within a deadline of a handler, whatever hangs beside them. */
export const HEALTHY_MS: number = DEADLINE_MS + NOISE_MS
/** A dependency is named after one call to it was given up, and the pause of a breaker. */
export const NAMED_MS: number = 2 * CALL_MS + NOISE_MS
/** The longest pause of a breaker, calls that were given up, and what the broker hides meanwhile. */
export const RECOVERY_MS = 120_000
/** A wrap has no option for the length of its drain. */
const LONGEST_DRAIN_MS = RUN_DEFAULTS.drainMs + GRACE_MS + CALL_MS + NOISE_MS
const LONGEST_CLOSE_MS = DEADLINE_MS + GRACE_MS + 2 * CALL_MS + NOISE_MS

export interface SentEvent {
  readonly id: string
  readonly side: 'subject' | 'neighbour'
  readonly kind: 'good' | 'flaky' | 'fatal'
}

/** What one plan has left behind. */
export interface History {
  readonly plan: Plan
  readonly sent: readonly SentEvent[]
  /** Committed rows, by event. */
  readonly effects: ReadonlyMap<string, number>
  readonly letters: ReadonlySet<string>
  /** Events of healthy consumers that did not pass during the hang, within {@link HEALTHY_MS}. */
  readonly stalled: readonly string[]
  /** The dependencies that the subject's health named during the hang, each with the first reason. */
  readonly named: ReadonlyMap<string, string>
  /** The dependencies that the neighbour's health named during the hang. */
  readonly neighbour: readonly string[]
  /** What was not as it should be {@link RECOVERY_MS} after the hang. */
  readonly unrecovered: readonly string[]
  readonly drainsMs: readonly number[]
  readonly closesMs: readonly number[]
  /** Connections of the subject through the proxy that hung: the most before the hang and during it. */
  readonly connections: { readonly calm: number; readonly peak: number }
  /** Connections that stayed open after the subject's clients were closed. */
  readonly leftOpen: readonly string[]
}

/** A lease store has milliseconds to answer and a heartbeat seconds, so a busy machine is enough for these. */
export const EXCUSED: readonly string[] = ['leases', 'broker']

type Rule = (history: History) => readonly string[]

const RULES: readonly Rule[] = [
  ({ sent, effects }) =>
    sent
      .filter(({ id, kind }) => kind !== 'fatal' && !effects.has(id))
      .map(({ id, side }) => `${id} of the ${side} was lost: it has no effect`),
  ({ sent, letters }) =>
    sent
      .filter(({ id, kind }) => kind === 'fatal' && !letters.has(id))
      .map(({ id }) => `${id} was lost: it has no dead letter`),
  ({ effects }) =>
    [...effects]
      .filter(([, times]) => times > 1)
      .map(([id, times]) => `${id} was doubled: it has ${times} effects`),
  ({ sent, effects }) =>
    sent
      .filter(({ id, kind }) => kind === 'fatal' && effects.has(id))
      .map(({ id }) => `${id} has an effect, although its handler failed for good`),
  ({ sent, letters }) =>
    sent
      .filter(({ id, kind }) => kind !== 'fatal' && letters.has(id))
      .map(({ id }) => `${id} was dead-lettered, although only its dependency hung`),
  ({ stalled }) =>
    stalled.map((id) => `${id} is healthy and did not pass within ${HEALTHY_MS} ms of the hang`),
  ({ plan, named }) => {
    const name = NAMES[plan.dependency]
    if (!mustBeNamed(plan) || named.has(name)) return []
    const said = [...named.keys()].join(', ') || 'nothing'
    return [`health() did not name '${name}' within ${NAMED_MS} ms; it named ${said}`]
  },
  ({ plan, named }) => {
    // A wrapped consumer of RabbitMQ publishes on the channel that hangs.
    const also = plan.dependency === 'broker' && plan.adapter === 'amqp' ? ['dead-letters'] : []
    const allowed: readonly string[] = [NAMES[plan.dependency], ...EXCUSED, ...also]
    return [...named]
      .filter(([name]) => !allowed.includes(name))
      .map(([name, reason]) => `health() named '${name}', which did not hang: ${reason}`)
  },
  ({ neighbour }) =>
    neighbour
      .filter((name) => !EXCUSED.includes(name))
      .map((name) => `the neighbour named '${name}', of which it has its own`),
  ({ unrecovered }) =>
    unrecovered.map((what) => `not recovered ${RECOVERY_MS} ms after the hang: ${what}`),
  ({ drainsMs }) =>
    drainsMs
      .filter((ms) => ms > LONGEST_DRAIN_MS)
      .map((ms) => `a drain took ${Math.round(ms)} ms, more than ${LONGEST_DRAIN_MS}`),
  ({ closesMs }) =>
    closesMs
      .filter((ms) => ms > LONGEST_CLOSE_MS)
      .map((ms) => `close() of the guard took ${Math.round(ms)} ms, more than ${LONGEST_CLOSE_MS}`),
  ({ connections: { calm, peak }, plan }) => {
    const { mostSockets = 0 } = isOfBroker(plan) ? BROKERS[plan.adapter].traits : {}
    const most = Math.max(2 * calm, 2 * POOL_SIZE, mostSockets)
    if (peak <= most) return []
    return [`the hang made ${peak} connections, more than ${most}; before it there were ${calm}`]
  },
  ({ leftOpen }) => leftOpen.map((what) => `connections stayed open: ${what}`),
]

const isOfBroker = ({ dependency }: Plan): boolean =>
  dependency === 'broker' || dependency === 'publish'

/** Everything that a history breaks. */
export const judge = (history: History): readonly string[] =>
  RULES.flatMap((rule) => rule(history).slice(0, 3))
