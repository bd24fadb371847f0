import { afterEach, describe, expect, test, vi } from 'vitest'
import {
  consumed,
  GroupSimulation,
  HEALED_MS,
  type Process,
  wrapped,
} from './fixtures/group-simulation.ts'
import { type Fault, REQUESTS, type Request } from './fixtures/live-cluster.ts'

const ROUNDS = 20
const FAULTS: readonly Fault[] = [
  ...(['refused', 'answer-lost', 'request-hangs', 'answer-hangs'] as const),
  ...(['NOT_COORDINATOR_FOR_GROUP', 'GROUP_COORDINATOR_NOT_AVAILABLE'] as const),
  ...(['GROUP_LOAD_IN_PROGRESS', 'REBALANCE_IN_PROGRESS', 'UNKNOWN_MEMBER_ID'] as const),
  'ILLEGAL_GENERATION',
]

afterEach(() => {
  vi.restoreAllMocks()
})

/** Faults of some requests or of all, and what else happens to a topic and its consumers. */
async function faults(simulation: GroupSimulation, isRecreated: boolean): Promise<void> {
  const { live } = simulation
  const share = simulation.pick([0, 0.02, 0.1, 0.3, 0.6])
  const hit: ReadonlySet<Request> = new Set(
    simulation.chance(0.5) ? REQUESTS : REQUESTS.filter(() => simulation.chance(0.4)),
  )
  live.fault = (request) =>
    hit.has(request) && simulation.chance(share) ? simulation.pick(FAULTS) : undefined
  for (let round = 0; round < ROUNDS; round += 1) {
    if (simulation.chance(0.5)) live.append(simulation.pick([...live.logs.keys()]))
    if (simulation.chance(0.2)) live.group.forgetAll()
    if (isRecreated && simulation.chance(0.2)) live.recreate()
    if (simulation.chance(0.03)) live.addPartition()
    if (simulation.chance(0.05)) simulation.start()
    if (simulation.chance(0.05)) simulation.kill()
    if (simulation.chance(0.1)) live.moveLeader(simulation.pick([...live.logs.keys()]))
    live.isStalled = simulation.chance(0.05)
    live.down = simulation.chance(0.1) ? simulation.pick(['1', '2']) : undefined
    await simulation.pass(simulation.chance(0.1) ? 20_000 : 1_000)
  }
  Object.assign(live, { fault: () => undefined, isStalled: false, down: undefined })
}

const SEEDS: readonly number[] = Array.from(
  { length: Number(process.env['SEEDS'] ?? 5) },
  (_, index) => Number(process.env['FROM'] ?? 1) + index,
)

async function simulated(
  seed: number,
  start: (made: Process) => Promise<void>,
  isRecreated = false,
): Promise<GroupSimulation> {
  const simulation = new GroupSimulation(seed, start)
  simulation.start()
  if (simulation.chance(0.7)) simulation.start()
  await simulation.pass(5_000)
  expect(simulation.live.group.state).toBe('stable')
  await faults(simulation, isRecreated)
  // Half of the time nothing comes that would show a consumer that it hangs.
  if (simulation.chance(0.5))
    for (const partition of simulation.live.logs.keys()) simulation.live.append(partition)
  await simulation.pass(HEALED_MS)
  return simulation
}

describe('after faults at random', { timeout: 60_000 }, () => {
  // Red when a member hangs, or is none and does not notice: kafkajs has such states.
  test.each(SEEDS)(
    'all consumers are in their group, and all records are done and committed: %i',
    async (seed) => {
      const simulation = await simulated(seed, consumed, seed % 2 === 0)
      expect(simulation.state).toEqual(simulation.well)
      expect(await simulation.end()).toEqual({ members: [], timers: new Set([0]) })
    },
  )

  // Red when one that hangs is running: nobody but its health can tell that nothing is consumed.
  test.each(SEEDS)('health says which wrapped consumers are in their group: %i', async (seed) => {
    const simulation = await simulated(seed, wrapped)
    expect(simulation.running).toEqual(simulation.members)
    if (simulation.running.every((isRunning) => isRunning))
      expect(simulation.state).toEqual(simulation.well)
  })
})
