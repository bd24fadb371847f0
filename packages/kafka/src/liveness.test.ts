import { afterEach, describe, expect, test, vi } from 'vitest'
import { type Fault, REQUESTS, type Request } from './fixtures/live-cluster.ts'
import { consumed, HEALED_MS, Play, type Process, wrapped } from './fixtures/play.ts'

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
async function faults(play: Play, isRecreated: boolean): Promise<void> {
  const { live } = play
  const share = play.pick([0, 0.02, 0.1, 0.3, 0.6])
  const hit: ReadonlySet<Request> = new Set(
    play.chance(0.5) ? REQUESTS : REQUESTS.filter(() => play.chance(0.4)),
  )
  live.fault = (request) => (hit.has(request) && play.chance(share) ? play.pick(FAULTS) : undefined)
  for (let round = 0; round < ROUNDS; round += 1) {
    if (play.chance(0.5)) live.append(play.pick([...live.logs.keys()]))
    if (play.chance(0.2)) live.group.forgetAll()
    if (isRecreated && play.chance(0.2)) live.recreate()
    if (play.chance(0.03)) live.addPartition()
    if (play.chance(0.05)) play.start()
    if (play.chance(0.05)) play.kill()
    if (play.chance(0.1)) live.moveLeader(play.pick([...live.logs.keys()]))
    live.isStalled = play.chance(0.05)
    live.down = play.chance(0.1) ? play.pick(['1', '2']) : undefined
    await play.pass(play.chance(0.1) ? 20_000 : 1_000)
  }
  Object.assign(live, { fault: () => undefined, isStalled: false, down: undefined })
}

const SEEDS: readonly number[] = Array.from(
  { length: Number(process.env['SEEDS'] ?? 5) },
  (_, index) => Number(process.env['FROM'] ?? 1) + index,
)

async function played(
  seed: number,
  start: (made: Process) => Promise<void>,
  isRecreated = false,
): Promise<Play> {
  const play = new Play(seed, start)
  play.start()
  if (play.chance(0.7)) play.start()
  await play.pass(5_000)
  expect(play.live.group.state).toBe('stable')
  await faults(play, isRecreated)
  // Half of the time nothing comes that would show a consumer that it hangs.
  if (play.chance(0.5)) for (const partition of play.live.logs.keys()) play.live.append(partition)
  await play.pass(HEALED_MS)
  return play
}

describe('after faults at random', { timeout: 60_000 }, () => {
  // Red when a member hangs, or is none and does not notice: kafkajs has such states.
  test.each(SEEDS)(
    'all consumers are in their group, and all records are done and committed: %i',
    async (seed) => {
      const play = await played(seed, consumed, seed % 2 === 0)
      expect(play.state).toEqual(play.well)
      expect(await play.end()).toEqual({ members: [], timers: new Set([0]) })
    },
  )

  // Red when one that hangs is running: nobody but its health can tell that nothing is consumed.
  test.each(SEEDS)('health says which wrapped consumers are in their group: %i', async (seed) => {
    const play = await played(seed, wrapped)
    expect(play.running).toEqual(play.members)
    if (play.running.every((isRunning) => isRunning)) expect(play.state).toEqual(play.well)
  })
})
