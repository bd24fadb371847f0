import type { Settlement } from '@onceward/core'
import type { EffectRow, History, RunFact, Settled } from './history.ts'
import { CLEAN, type EventPlan, type Plan, runOf } from './plan.ts'
import { describe } from './shared.ts'

/** What must be true of every case. Each answers what is not, as sentences. */
export type Rules<Of extends History> = Readonly<Record<string, (history: Of) => readonly string[]>>

const RULES: Rules<History> = {
  surprises: ({ surprises }) => surprises,
  'nothing is left': ({ left }) => left,
  'every event ends': ({ unended }) => unended.map((event) => `event ${event} does not end`),
  'settlements are allowed': (history) =>
    history.settled.flatMap((each) => refused(history, each, isDeadRightly)),
  'one processed': (history) => eachEvent(history, processedOnce),
  'the effect is that of one run': (history) => eachEvent(history, oneRun),
  'the store knows': (history) => eachEvent(history, storedState),
  'a clean run commits': (history) => eachEvent(history, cleanRunCommits),
  'attempts are counted': (history) => history.runs.flatMap((run) => attemptOf(history, run)),
  'handlers begin clean': (history) => history.runs.flatMap((run) => seenBy(history, run)),
  'neighbours are left alone': (history) => eachEvent(history, neighbour),
  'a copy finds the outcome': (history) => history.again.flatMap((each) => again(history, each)),
  'nested effects': nestedEffects,
  'lanes keep their order': laneOrder,
}

/** The first promise that was broken, with its name; undefined if none was. */
export const judge = (history: History): string | undefined => judgeBy(RULES, history)

export function judgeBy<Of extends History>(rules: Rules<Of>, history: Of): string | undefined {
  for (const [name, rule] of Object.entries(rules)) {
    const broken = rule(history)
    if (broken.length > 0) return `${name}: ${[...new Set(broken)].slice(0, 3).join('; ')}`
  }
  return undefined
}

export const eachEvent = <Of extends History>(
  history: Of,
  rule: (history: Of, event: number) => readonly string[],
): readonly string[] => [...history.plan.events.keys()].flatMap((event) => rule(history, event))

export function show(settlement: Settlement | undefined): string {
  if (settlement === undefined) return 'none'
  const fields = { ...settlement } as Record<string, unknown>
  const words = ['kind', 'by', 'reason', 'cause'].flatMap((name) => fields[name] ?? [])
  return `${words.join('/')}${'error' in fields ? ` (${describe(fields['error'])})` : ''}`
}

export const runsOf = ({ runs }: History, event: number): readonly RunFact[] =>
  runs.filter((run) => run.event === event)

/** The settlement that ended the event. */
export const endOf = ({ settled }: History, event: number): Settlement | undefined =>
  settled.find(
    ({ event: each, settlement: { kind } }) =>
      each === event && (kind === 'ack' || kind === 'dead-letter'),
  )?.settlement

const plansOf = (plan: Plan): readonly EventPlan['runs'][number][] =>
  plan.events.flatMap(({ runs }) => runs)
export const hasStep = (plan: Plan, pattern: RegExp): boolean =>
  plansOf(plan).some(({ steps }) => steps.some(({ step }) => pattern.test(step)))

const isLost = ({ runs }: History): boolean => runs.some((run) => run.isLost)

/** Runs of one call of a handler share its transaction. */
const isDoomed = ({ runs, plan }: History, run: RunFact): boolean =>
  run.doomed !== undefined ||
  (plan.mode === 'together' &&
    runs.some((other) => other.call === run.call && other.doomed !== undefined))

const HELD = [
  ...['held-by-lease', 'held-by-row', 'running-elsewhere', 'in-flight-here'],
  ...['waiting-alone', 'no-free-slot'],
]

export function refused<Of extends History>(
  history: Of,
  { event, settlement }: Settled,
  isDead: (history: Of, event: number, reason: string) => boolean,
): readonly string[] {
  const no = [`event ${event} was settled as ${show(settlement)}`]
  switch (settlement.kind) {
    case 'ack':
      return settlement.by === 'processed' || settlement.by === 'duplicate' ? [] : no
    case 'defer': {
      const { cause = '' } = settlement
      if (cause === 'handler-failed' || cause === 'not-due' || cause === 'lane-waits') return []
      if (HELD.includes(cause)) return []
      // A connection that a handler ends looks like a store that is down, and the breaker spares it for a second.
      const isOutage = cause === 'store-error' || cause === 'breaker-open'
      return isOutage && isLost(history) ? [] : no
    }
    case 'dead-letter':
      return isDead(history, event, settlement.reason) ? [] : no
    case 'abandon':
      return settlement.reason === 'commit-unknown' && isLost(history) ? [] : no
  }
}

function isDeadRightly(history: History, event: number, reason: string): boolean {
  const runs = runsOf(history, event)
  switch (reason) {
    case 'fatal':
      return runs.some(({ end }) => end === 'fatal')
    case 'attempts-spent':
      return runs.some(({ attempt }) => attempt === history.plan.attempts)
    case 'no-verdict':
      return runs.filter((run) => run.isLost).length >= 3
    default:
      return false
  }
}

function processedOnce(history: History, event: number): readonly string[] {
  const acked = history.settled.filter(
    ({ event: each, settlement }) =>
      each === event && settlement.kind === 'ack' && settlement.by === 'processed',
  ).length
  // After a lost COMMIT the row says that the event was processed, and not by which of two workers (design.md §6).
  const mayBeOther = history.plan.workers > 1 && isLost(history)
  if (acked > 1 && !mayBeOther) return [`event ${event} was processed ${acked} times`]
  // A handler that processes deliveries keeps their settlements to itself.
  const isHidden = isLost(history) || hasStep(history.plan, /^processes|not seen/)
  const isAcked = endOf(history, event)?.kind === 'ack'
  return isAcked && acked === 0 && !isHidden ? [`event ${event} was acked and not processed`] : []
}

export function oneRun(history: History, event: number): readonly string[] {
  const { plan, rows } = history
  if (rows === undefined) return []
  const own = rows.filter((row) => row.consumer === 'zoo' && row.event === event)
  const numbers = [...new Set(own.map(({ run }) => run))]
  const end = endOf(history, event)
  if (numbers.length > 1) return [`event ${event} has effects of the runs ${numbers.join()}`]
  const run = runsOf(history, event).find((each) => each.run === numbers[0])
  if (run === undefined) {
    const isEmpty = runsOf(history, event).some(
      (each) => each.endedItself && each.parts.length === 0,
    )
    return end?.kind === 'ack' && !isEmpty ? [`event ${event} was acked and has no effect`] : []
  }
  if (end?.kind === 'dead-letter') return [`event ${event} is dead and has an effect`]
  if (end?.kind === 'ack' && isDoomed(history, run) && !run.endedItself) {
    return [`event ${event} has the effect of run ${run.run}, but ${run.doomed ?? 'it failed'}`]
  }
  // In a shared transaction the handle still works while the handlers of others run.
  const allowed = plan.mode !== 'each' && !run.hasHung ? run.late : []
  const wrong = differences(own, run, allowed)
  return wrong.map((part) => `event ${event}, run ${run.run}: ${part}`)
}

function differences(rows: readonly EffectRow[], run: RunFact, allowed: readonly string[]) {
  const found = rows.map(({ part }) => part).filter((part) => !allowed.includes(part))
  const wanted = [...run.parts]
  const missing = wanted.toSorted().join() !== found.toSorted().join()
  return missing ? [`committed ${found.join() || 'nothing'} instead of ${wanted.join()}`] : []
}

export function storedState(history: History, event: number): readonly string[] {
  const state = history.states?.find((each) => each.event === event)
  const end = endOf(history, event)
  if (state === undefined || end === undefined) return []
  const is = `event ${event} was settled as ${show(end)} and is ${state.state ?? 'absent'}`
  if (end.kind === 'ack') {
    // The record of a failure is deleted with onceward's own commit. After a commit of the handler's it goes with the row.
    const mayKeepRow = runsOf(history, event).some((run) => run.endedItself)
    return state.state === 'd' && (mayKeepRow || !state.hasFailedRow) ? [] : [is]
  }
  const reason = end.kind === 'dead-letter' ? end.reason : undefined
  return state.state === 'x' && state.reason === reason ? [] : [`${is}, reason ${state.reason}`]
}

/** With a transaction of its own, nothing but the handler decides. */
function cleanRunCommits(history: History, event: number): readonly string[] {
  if (history.plan.mode !== 'each') return []
  const runs = runsOf(history, event)
  const clean = runs.filter((run) => run.doomed === undefined && !run.isLoose && run.isOver)
  const [first] = clean
  if (first === undefined) return []
  if (clean.length > 1 || runs.at(-1) !== first) {
    return [`event ${event} ran again after the clean run ${first.run}`]
  }
  const end = endOf(history, event)
  return end?.kind === 'ack' ? [] : [`event ${event} had a clean run and ended as ${show(end)}`]
}

function attemptOf({ plan }: History, run: RunFact): readonly string[] {
  const { attempt, event, failuresBefore } = run
  const isRight =
    plan.workers > 1
      ? attempt >= 1 && attempt <= plan.attempts
      : attempt === failuresBefore + 1 && attempt <= plan.attempts
  if (isRight) return []
  return [
    `run ${run.run} of event ${event} had attempt ${attempt} after ${failuresBefore} failures`,
  ]
}

/** Settings of the session stay on a connection of a pool, as without a guard. Roles do not. */
const SESSION_SETTINGS = /^set (?!local|constraints|role|session)|^reset|set_config\(.*false\)/

export function seenBy({ plan, runs }: History, fact: RunFact): readonly string[] {
  const { event, run, isIntact, seen } = fact
  const which = `run ${run} of event ${event} began`
  const wrong = isIntact ? [] : [`${which} with a changed event`]
  // A handler of batches has one session for all its events.
  const isFirst = runs.find(({ call }) => call === fact.call) === fact
  if (seen === undefined || !isFirst) return wrong
  if (seen.role !== 'postgres' || seen.user !== 'postgres') {
    wrong.push(`${which} as ${seen.role} of ${seen.user}`)
  }
  if (hasStep(plan, SESSION_SETTINGS)) return wrong
  if (seen.tenant !== '') wrong.push(`${which} with tenant ${seen.tenant}`)
  if (!seen.searchPath.includes('public')) wrong.push(`${which} with path ${seen.searchPath}`)
  return wrong
}

export const isClean = (plan: EventPlan): boolean => runOf(plan, 1) === CLEAN

function neighbour(history: History, event: number): readonly string[] {
  const { plan, settled } = history
  const own = plan.events[event]
  if (own === undefined || !isClean(own) || own.lane !== undefined || plan.workers > 1) return []
  if (own.copies > 1 && plan.isAtOnce) return []
  if (hasStep(plan, /^processes/) || (plan.mode !== 'each' && isLost(history))) return []
  const first = settled.filter((each) => each.event === event && each.round === 1)
  const wrong = first.filter(({ settlement }) => settlement.kind !== 'ack')
  return wrong.map(({ settlement }) => `clean event ${event} was settled as ${show(settlement)}`)
}

export function again(
  history: History,
  { event, settlement }: History['again'][number],
): readonly string[] {
  const end = endOf(history, event)
  const answer = `event ${event}, ended as ${show(end)}, was again settled as ${show(settlement)}`
  if (end?.kind === 'dead-letter') {
    return settlement.kind === 'dead-letter' && settlement.reason === end.reason ? [] : [answer]
  }
  if (settlement.kind !== 'ack' || settlement.by !== 'duplicate') return [answer]
  const run = runsOf(history, event).at(-1)
  if (run?.result === undefined || history.plan.mode !== 'each' || run.endedItself) return []
  return JSON.stringify(settlement.result) === run.result
    ? []
    : [`event ${event} returned ${run.result.slice(0, 80)}, and its copy got something else`]
}

export function nestedEffects({ nested, rows }: History): readonly string[] {
  return nested.flatMap((event) => {
    const found = rows?.filter((row) => row.consumer === 'other' && row.event === event).length ?? 1
    return found === 1 ? [] : [`event ${event} of the other consumer has ${found} effects`]
  })
}

export function laneOrder(history: History): readonly string[] {
  const { plan, rows = [] } = history
  // Across calls the order is that of the adapter.
  const deliveries = plan.events.reduce((sum, { copies }) => sum + copies, 0)
  const isOneCall = deliveries <= plan.chunk && plan.workers === 1
  if (!isOneCall || hasStep(plan, /^processes/)) return []
  const firsts = [...plan.events.keys()].flatMap((event) => {
    const row = rows.find((each) => each.consumer === 'zoo' && each.event === event)
    return row === undefined ? [] : [{ event, id: row.id, lane: plan.events[event]?.lane }]
  })
  return firsts.flatMap(({ event, id, lane }) =>
    firsts
      .filter((other) => lane !== undefined && other.lane === lane && other.event > event)
      .filter((other) => other.id < id)
      .map((other) => `event ${other.event} overtook event ${event} of its lane`),
  )
}
