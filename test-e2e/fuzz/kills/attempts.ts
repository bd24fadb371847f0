import { eachEvent, endOf, hasStep, isClean, runsOf } from '../handlers/judge.ts'
import type { KillHistory, PlayedRun } from './history.ts'

/** What may be stored as the attempts of an event. */
interface Range {
  readonly least: number
  readonly most: number
}

const ownRuns = (history: KillHistory, event: number): readonly PlayedRun[] =>
  runsOf(history, event) as readonly PlayedRun[]

/** Every run that was counted costs its event one attempt, also if its process died, and nothing else does. */
export function attemptsAreCounted(history: KillHistory, event: number): readonly string[] {
  const runs = ownRuns(history, event)
  return runs.flatMap((run, at) => {
    const { least, most } = storedBefore(history, run, runs[at - 1])
    const isRight = run.attempt > least && run.attempt <= Math.min(most + 1, history.plan.attempts)
    if (isRight) return []
    return [
      `run ${run.run} of event ${event} had attempt ${run.attempt}, when ${least} to ${most} were counted`,
    ]
  })
}

function storedBefore(
  history: KillHistory,
  run: Pick<PlayedRun, 'event' | 'process' | 'failuresBefore'>,
  before: PlayedRun | undefined,
): Range {
  if (before === undefined) {
    // A process may die between the count and the run. Only first deliveries are not counted.
    const first = history.processes[0]?.settled.some(({ event }) => event === run.event) ?? false
    const isFree = !history.plan.isFirstSuspect && !first
    return { least: 0, most: Math.max(0, run.process - (isFree ? 1 : 0)) }
  }
  const verdicts = run.failuresBefore - before.failuresBefore
  if (before.process === run.process) {
    const stored = before.attempt - 1 + verdicts
    return { least: stored, most: stored }
  }
  return storedAfterDeath(history, { before, run, verdicts })
}

interface Between {
  readonly before: PlayedRun
  readonly run: Pick<PlayedRun, 'process'>
  readonly verdicts: number
}

function storedAfterDeath({ plan }: KillHistory, { before, run, verdicts }: Between): Range {
  const isCounted = before.isRedelivered === true || before.attempt > 1
  const isOver = before.overAt !== undefined
  // Between its run and its death the process may have counted the event again.
  const unseen = run.process - before.process - 1 + (isOver ? 1 : 0)
  if (verdicts > 0) return { least: before.attempt, most: before.attempt + unseen }
  // A verdict may be stored that the process could not tell any more.
  const most = isCounted || isOver ? before.attempt : 0
  if (!isCounted) return { least: 0, most: most + unseen }
  // In a shared transaction a lane may stop, and what did not count is given back.
  const least = plan.mode !== 'each' && isOver ? before.attempt - 1 : before.attempt
  return { least, most: most + unseen }
}

/** Whether the event may be dead for this reason. */
export function isDeadRightly(history: KillHistory, event: number, reason: string): boolean {
  const runs = ownRuns(history, event)
  if (reason === 'fatal') return runs.some(({ end }) => end === 'fatal')
  if (reason !== 'attempts-spent') return false
  const { attempts } = history.plan
  const last = runs.at(-1)
  if (last?.attempt === attempts) return true
  const process = history.processes.findIndex(({ settled }) =>
    settled.some((each) => each.event === event && each.settlement.kind === 'dead-letter'),
  )
  const failuresBefore = last?.failuresBefore ?? 0
  return storedBefore(history, { event, process, failuresBefore }, last).most >= attempts
}

/** Handlers that process deliveries of their own consumer drag these along. */
const isDragging = ({ plan }: KillHistory): boolean =>
  hasStep(plan, /^processes: (itself|neighbour)/)

/** An event that killed its process in every run is dead after its attempts. */
export function poisonIsDead(history: KillHistory, event: number): readonly string[] {
  const { plan, states } = history
  const runs = ownRuns(history, event)
  const end = endOf(history, event)
  const wrong: string[] = []
  const isSpent = end?.kind === 'dead-letter' && end.reason === 'attempts-spent'
  const stored = states?.find((each) => each.event === event)?.attempt
  if (isSpent && stored !== plan.attempts) {
    wrong.push(`event ${event} is dead after ${stored} attempts of ${plan.attempts}`)
  }
  const isPoison = runs.length > 0 && runs.every(({ doomed }) => doomed === 'its process died')
  if (!isPoison || isDragging(history) || end === undefined) return wrong
  if (!isSpent) wrong.push(`event ${event} killed its process in every run, and is not dead`)
  // Nothing is stored about the run of a first delivery.
  const most = plan.attempts + (plan.isFirstSuspect ? 0 : 1)
  if (runs.length > most) wrong.push(`event ${event} killed ${runs.length} processes`)
  return wrong
}

/**
 * A process that dies costs an event beside it at most one attempt, because that event then runs alone. Only what comes
 * after the run of its cause can hit an event that runs alone.
 */
export function neighboursLive(history: KillHistory): readonly string[] {
  const { plan, processes } = history
  const late = processes.filter(({ deaths }) => deaths.some(({ isLate }) => isLate)).length
  if (isDragging(history) || plan.attempts <= 1 + late) return []
  return eachEvent(history, (_, event) => {
    const own = plan.events[event]
    const end = endOf(history, event)
    if (own === undefined || !isClean(own) || end?.kind !== 'dead-letter') return []
    return [`clean event ${event} is dead: ${end.reason}`]
  })
}

/** An event whose last run has no verdict runs while no other runs in its process. */
export function suspectsRunAlone(history: KillHistory): readonly string[] {
  if (isDragging(history)) return []
  return history.runs.flatMap((run) => {
    const { event, process } = run
    const stored = history.processes[process - 1]?.stored.states
    const isSuspect = stored?.find((each) => each.event === event)?.state === 'r'
    const beside = history.runs.filter((other) => other.process === process && other !== run)
    const isFirst = beside.every((other) => other.event !== event || other.run > run.run)
    if (!isSuspect || !isFirst) return []
    return beside
      .filter((other) => overlap(run, other))
      .map((other) => `event ${other.event} ran beside event ${event}, which must run alone`)
  })
}

function overlap(one: PlayedRun, other: PlayedRun): boolean {
  const isBefore = (first: PlayedRun, second: PlayedRun): boolean =>
    first.overAt !== undefined && first.overAt <= second.beganAt
  return !isBefore(one, other) && !isBefore(other, one)
}
