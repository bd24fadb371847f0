import { chooser, MOST_STEPS, type Played } from '../run/run.ts'
import { createDice } from '../world/dice.ts'
import { type Choose, quiet } from '../world/scheduler.ts'
import { type CallerFault, drawCallerPlan } from './plan.ts'
import { CallerWorld, type Server } from './world.ts'

/** Runs the schedule of a seed to its end: until every client has its answer. */
export async function runCallers(seed: number, isTraced = false): Promise<Played> {
  const plan = drawCallerPlan(seed)
  const world = new CallerWorld(plan, isTraced)
  const choose = chooser(plan, createDice(seed).apart('schedule'))
  const struck = await live(world, choose)
  if (world.audit.violation === undefined) await closeAll(world, choose)
  const { audit, database, scheduler } = world
  const dead = [...audit.cases.values()].filter(({ id }) => isDead(world, id)).length
  return {
    violation: audit.violation,
    steps: scheduler.steps,
    virtualMs: scheduler.nowMs,
    processed: [...audit.cases.values()].filter(({ id, successes }) =>
      plan.composition === 'leases' ? successes > 0 : database.history.of(id).effects.length > 0,
    ).length,
    dead,
    struck,
    traceHash: scheduler.traceHash,
    trace: scheduler.trace ?? [],
  }
}

const isDead = ({ leases }: CallerWorld, id: Parameters<typeof leases.stateOf>[1]): boolean =>
  leases.stateOf('alone', id).kind === 'dead'

async function live(world: CallerWorld, choose: Choose): Promise<readonly CallerFault['kind'][]> {
  const { answers, audit, plan, scheduler, waiting } = world
  const left = [...plan.faults].sort((one, other) => one.step - other.step)
  const struck: CallerFault['kind'][] = []
  while (waiting.size > 0 && audit.violation === undefined) {
    await quiet()
    answers.look()
    for (let next = left[0]; next !== undefined && next.step <= scheduler.steps; next = left[0]) {
      left.shift()
      struck.push(next.kind)
      scheduler.note(`fault ${next.kind}`)
      strike(world, next)
    }
    if (scheduler.steps > MOST_STEPS) audit.violate('not every client has its answer')
    else if (!scheduler.step(choose)) audit.violate('nothing can go on')
    await quiet()
  }
  return struck
}

type Strike = (world: CallerWorld, fault: CallerFault, server: Server | undefined) => void

const onServer =
  (strike: (world: CallerWorld, fault: CallerFault, server: Server) => void): Strike =>
  (world, fault, server) => {
    if (server !== undefined) strike(world, fault, server)
  }

const STRIKES: Readonly<Record<CallerFault['kind'], Strike>> = {
  crash: onServer((world, _, { life }) => world.crash(life)),
  freeze: onServer((world, { ms }, { life }) => {
    world.answers.disturbed()
    life.frozenUntilMs = world.scheduler.nowMs + ms
    world.wake(ms)
  }),
  'hang-up': ({ plan, waiting }, { target }) => {
    const client = plan.clients[target % plan.clients.length]
    if (client !== undefined) waiting.get(client)?.()
  },
  'pg-cut': onServer((world, _, server) => cutOff(world, server)),
  'pg-restart': (world, { ms }) => {
    for (const each of world.servers) if (each !== undefined) cutOff(world, each)
    world.database.restart(Math.min(ms, LONGEST_RESTART_MS))
  },
  'lease-cut': onServer(({ answers, dice }, _, { links }) => {
    answers.disturbed()
    links.leases.cut(() => dice.chance(0.5))
  }),
  'lease-down': ({ answers, leases }, { ms }) => {
    answers.disturbed()
    leases.goDown(ms)
  },
  'lease-flush': ({ leases }) => leases.flush(),
}

const LONGEST_RESTART_MS = 2_000

function strike(world: CallerWorld, fault: CallerFault): void {
  const { servers } = world
  STRIKES[fault.kind](world, fault, servers[fault.target % servers.length])
}

function cutOff({ audit, database, dice }: CallerWorld, { life, links }: Server): void {
  audit.disturbed(life)
  links.database.cut(() => dice.chance(0.5))
  database.orphan(life)
}

/** Runs that nobody waits for any more end too, and nothing is held afterwards. */
async function closeAll(world: CallerWorld, choose: Choose): Promise<void> {
  const { audit, database, scheduler, servers } = world
  world.isEnding = true
  const open = new Set<Server>()
  for (const server of servers) {
    if (server === undefined) continue
    open.add(server)
    void server.guard.close().then(() => open.delete(server))
  }
  const isOpen = (): boolean => [...open].some(({ life }) => life.isAlive)
  await quiet()
  for (let steps = 0; isOpen() && steps < MOST_STEPS; steps += 1) {
    if (!scheduler.step(choose)) break
    await quiet()
  }
  if (isOpen()) audit.violate('a guard does not close')
  // A backend of a dead process ends when the server notices.
  const isHeld = [...database.backends].some(({ owner }) => owner.isAlive)
  if (isHeld) audit.violate('a transaction is open after the guards are closed')
}
