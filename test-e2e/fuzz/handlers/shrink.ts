import type { EventPlan, Plan, RunPlan } from './plan.ts'

interface Shrunk<Case extends Plan> {
  readonly plan: Case
  readonly violation: string
}

/** Most cases that are played to make one smaller. */
const MOST_PLAYS = 150

/** Leaves out of the plan what the violation does not need. */
export async function shrinkPlan<Case extends Plan>(
  plan: Case,
  violation: string,
  play: (plan: Case) => Promise<string | undefined>,
  mostPlays: number = MOST_PLAYS,
): Promise<Shrunk<Case>> {
  let smallest: Shrunk<Case> = { plan, violation }
  let plays = 0
  for (let isSmaller = true; isSmaller; ) {
    isSmaller = false
    for (const smaller of smallerPlans(smallest.plan)) {
      if (plays >= mostPlays) return smallest
      plays += 1
      const found = await play(smaller)
      if (found === undefined || ruleOf(found) !== ruleOf(violation)) continue
      smallest = { plan: smaller, violation: found }
      isSmaller = true
      break
    }
  }
  return smallest
}

/** Another broken promise would lead to another case. */
const ruleOf = (violation: string): string => violation.slice(0, violation.indexOf(':'))

const without = <Item>(items: readonly Item[], index: number): readonly Item[] =>
  items.filter((_, at) => at !== index)

function* smallerPlans<Case extends Plan>(plan: Case): Generator<Case> {
  for (const index of plan.events.keys()) {
    if (plan.events.length > 1) yield { ...plan, events: without(plan.events, index) }
  }
  if (plan.workers > 1) yield { ...plan, workers: 1 }
  if (plan.leases !== 'none') yield { ...plan, leases: 'none' }
  if (plan.hasOwnPool) yield { ...plan, hasOwnPool: false }
  if (plan.isAtOnce) yield { ...plan, isAtOnce: false }
  for (const [index, event] of plan.events.entries()) {
    for (const smaller of smallerEvents(event)) {
      yield { ...plan, events: plan.events.map((each, at) => (at === index ? smaller : each)) }
    }
  }
  if (plan.mode !== 'each') yield { ...plan, mode: 'each' }
  if (plan.concurrency > 1) yield { ...plan, concurrency: 1 }
}

function* smallerEvents(event: EventPlan): Generator<EventPlan> {
  if (event.copies > 1) yield { ...event, copies: 1 }
  if (event.lane !== undefined) yield { ...event, lane: undefined }
  if (event.isForEver) yield { ...event, isForEver: false }
  for (const index of event.runs.keys()) yield { ...event, runs: without(event.runs, index) }
  for (const [index, run] of event.runs.entries()) {
    for (const smaller of smallerRuns(run)) {
      yield { ...event, runs: event.runs.map((each, at) => (at === index ? smaller : each)) }
    }
  }
}

function* smallerRuns(run: RunPlan): Generator<RunPlan> {
  for (const index of run.steps.keys()) yield { ...run, steps: without(run.steps, index) }
  if (run.end !== 'nothing') yield { ...run, end: 'nothing' }
}
