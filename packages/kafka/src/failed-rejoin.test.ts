import { afterEach, describe, expect, test, vi } from 'vitest'
import {
  consumed,
  GroupSimulation,
  HEALED_MS,
  type Process,
  wrapped,
} from './fixtures/group-simulation.ts'
import type { Fault, Request } from './fixtures/live-cluster.ts'

afterEach(() => {
  vi.restoreAllMocks()
})

/** One process that has joined. */
async function joined(start: (made: Process) => Promise<void>): Promise<GroupSimulation> {
  const simulation = new GroupSimulation(1, start)
  simulation.start()
  await simulation.pass(5_000)
  expect(simulation.state).toEqual(simulation.well)
  return simulation
}

/** The next request of this kind has this fault. */
function failNext(simulation: GroupSimulation, kind: Request, fault: Fault): void {
  let isOver = false
  simulation.live.fault = (request) => {
    if (isOver || request !== kind) return undefined
    isOver = true
    return fault
  }
}

// Red when records that are fetched meanwhile are only held: kafkajs, whose heartbeats succeed, never joins again.
test('a member whose last SyncGroup got no answer joins again with its next record', async () => {
  const simulation = await joined(consumed)
  failNext(simulation, 'sync', 'answer-lost')
  simulation.live.group.rebalance()
  await simulation.pass(10_000)
  for (const partition of simulation.live.logs.keys()) simulation.live.append(partition)
  await simulation.pass(20_000)
  expect(simulation.state).toEqual(simulation.well)
})

// Red when fetches count as signs of life: such a member is in no group, and kafkajs never notices.
describe('a member that was forgotten, and whose next join got no answer', () => {
  async function forgotten(start: (made: Process) => Promise<void>): Promise<GroupSimulation> {
    const simulation = await joined(start)
    failNext(simulation, 'join', 'refused')
    simulation.live.group.forgetAll()
    await simulation.pass(30_000)
    expect(simulation.live.group.members).toEqual([])
    await simulation.pass(HEALED_MS)
    return simulation
  }

  test('is replaced', async () => {
    const simulation = await forgotten(consumed)
    expect(simulation.state).toEqual(simulation.well)
  })

  test('is told in the health of a wrapped consumer', async () => {
    const simulation = await forgotten(wrapped)
    expect([simulation.running, simulation.members]).toEqual([[false], [false]])
  })
})
