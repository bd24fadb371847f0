import { Faults } from '../faults/faults.ts'
import { HANDLER_STEPS } from '../faults/handler.ts'
import type { Fault, Plan } from '../faults/plan.ts'
import { createDice, type Dice } from '../world/dice.ts'
import type { Life } from '../world/process.ts'
import { type Choose, type Options, quiet } from '../world/scheduler.ts'
import { World } from '../world/world.ts'

/** Steps after which a schedule counts as one that never ends. */
export const MOST_STEPS = 12_000
/** More operations and timers than this in one small world are a leak. */
const MOST_WAITING = 150

export interface Verdict {
  readonly plan: Plan
  /** Undefined: every promise was kept. */
  readonly violation: string | undefined
  readonly steps: number
  readonly virtualMs: number
  /** Events that ended with their effect, and without. */
  readonly processed: number
  readonly dead: number
  /** Faults that happened. */
  readonly struck: readonly Fault['kind'][]
  readonly traceHash: number
  readonly trace: readonly string[]
}

/** What came of one schedule, whatever its world. */
export type Played = Omit<Verdict, 'plan' | 'struck'> & { readonly struck: readonly string[] }

/** Runs one schedule to its end. The same plan gives the same run, to the last step. */
export async function runPlan(plan: Plan, isTraced = false): Promise<Verdict> {
  const world = new World(plan, isTraced)
  const faults = new Faults(world)
  const choose = chooser(plan, createDice(plan.seed).apart('schedule'))
  await live(world, faults, choose)
  if (world.audit.violation === undefined) await endAll(world, choose)
  const { scheduler, audit } = world
  return {
    plan,
    violation: audit.violation,
    steps: scheduler.steps,
    virtualMs: scheduler.nowMs,
    ...world.ends(),
    struck: faults.struck,
    traceHash: scheduler.traceHash,
    trace: scheduler.trace ?? [],
  }
}

/** Until every event has ended and no fault is to come. */
async function live(world: World, faults: Faults, choose: Choose): Promise<void> {
  const { audit, scheduler } = world
  for (;;) {
    await quiet()
    faults.strike()
    if (audit.violation !== undefined) return
    if (world.isDone()) {
      if (faults.isOver()) return
      faults.hurry()
      continue
    }
    if (scheduler.size > MOST_WAITING) return audit.violate(`${scheduler.size} things wait`)
    if (scheduler.steps > MOST_STEPS) return audit.violate(unfinished(world))
    if (!scheduler.step(choose)) {
      if (faults.isOver()) return audit.violate(`nothing can go on: ${unfinished(world)}`)
      faults.hurry()
    }
  }
}

function unfinished({ audit, broker, database }: World): string {
  const states = [...audit.cases.values()].map(
    ({ id, key }) => `${key} ${database.history.store.tables.rows.get(id)?.state ?? 'absent'}`,
  )
  const left = broker.isEmpty() ? 'empty' : 'not empty'
  const unsent = [...database.history.outbox.rows.values()].map(({ state }) => state).join('')
  return `not every event has ended: ${states.join(', ')}; broker ${left}; outbox ${unsent}`
}

/** Calls that a guard gives up at a deadline: to a dead-letter place, and those of the user's `afterCommit`. */
const GIVEN_UP: readonly string[] = ['dead-letter', 'reply']

/**
 * Whether the operation may go on after a drain: a step of a handler whose lease was lost (see `pauses`), or a call that
 * was given up, whose request, answer or end comes later.
 */
function isGivenUp(label: string): boolean {
  return HANDLER_STEPS.includes(label) || GIVEN_UP.some((verb) => isOf(verb, label))
}

const isOf = (verb: string, label: string): boolean =>
  [`${verb}>`, `${verb}<`, `${verb} cut!`].includes(label)

/** Everything is shut down; nothing may be held afterwards. */
export async function endAll(world: World, choose: Choose): Promise<void> {
  const { audit, database, members, scheduler } = world
  world.isEnding = true
  const drained = new Set<Life>()
  for (const { consumer, life } of members.filter((member) => member !== undefined)) {
    void consumer.drain(1_000).then(() => drained.add(life))
  }
  for (const relay of world.relays.filter((each) => each !== undefined)) {
    void relay.drain().then(() => drained.add(relay.life))
  }
  // A process that dies in its drain is no longer a member: nothing is left to wait for.
  const isDraining = (): boolean =>
    [...members, ...world.relays].some((each) => each !== undefined && !drained.has(each.life))
  await quiet()
  for (let steps = 0; isDraining() && steps < MOST_STEPS; steps += 1) {
    scheduler.step(choose)
    await quiet()
  }
  if (isDraining()) return audit.violate('a drain does not end')
  for (const { life, links } of members.filter((member) => member !== undefined)) {
    const open = scheduler.waiting(life).filter(({ label }) => !isGivenUp(label))
    if (open.length > 0) {
      const labels = open.map(({ label }) => label).join(', ')
      audit.violate(`${life.name} still waits after its drain: ${labels}`)
    }
    if (scheduler.timersOf(life) > life.pauses)
      audit.violate(`${life.name} has timers after its drain`)
    for (const link of Object.values(links)) {
      const left = link.inFlight.filter((verb) => !GIVEN_UP.includes(verb))
      if (left.length > 0) audit.violate(`${life.name} has calls in flight after its drain`)
    }
  }
  audit.outbox.ended(database.history.outbox)
  // The server ends by itself, sooner or later, what a process that died had open.
  if ([...database.backends].some(({ isOrphan }) => !isOrphan))
    audit.violate('a transaction is open after the drain')
}

export function chooser(plan: Pick<Plan, 'policy' | 'processes'>, dice: Dice): Choose {
  const even = ({ operations, time }: Options): number =>
    time && dice.chance(0.08) ? operations.length : dice.below(operations.length)
  if (plan.policy === 'even') return even
  let favourite = `P${dice.below(plan.processes)}`
  const isStarving = plan.policy === 'starve'
  return (options) => {
    const { operations } = options
    if (dice.chance(0.05)) favourite = `P${dice.below(plan.processes)}`
    const at = operations.findIndex(({ actor }) => actor.name.startsWith(favourite) !== isStarving)
    return at >= 0 && dice.chance(0.85) ? at : even(options)
  }
}
