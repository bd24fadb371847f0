import { afterEach, describe, expect, test, vi } from 'vitest'
import type { Fault, Request } from './fixtures/live-cluster.ts'
import { consumed, HEALED_MS, Play, type Process, wrapped } from './fixtures/play.ts'

afterEach(() => {
  vi.restoreAllMocks()
})

/** One process that has joined. */
async function joined(start: (made: Process) => Promise<void>): Promise<Play> {
  const play = new Play(1, start)
  play.start()
  await play.pass(5_000)
  expect(play.state).toEqual(play.well)
  return play
}

/** The next request of this kind has this fault. */
function failNext(play: Play, kind: Request, fault: Fault): void {
  let isOver = false
  play.live.fault = (request) => {
    if (isOver || request !== kind) return undefined
    isOver = true
    return fault
  }
}

// Red when records that are fetched meanwhile are only held: kafkajs, whose heartbeats succeed, never joins again.
test('a member whose last SyncGroup got no answer joins again with its next record', async () => {
  const play = await joined(consumed)
  failNext(play, 'sync', 'answer-lost')
  play.live.group.rebalance()
  await play.pass(10_000)
  for (const partition of play.live.logs.keys()) play.live.append(partition)
  await play.pass(20_000)
  expect(play.state).toEqual(play.well)
})

// Red when fetches count as signs of life: such a member is in no group, and kafkajs never notices.
describe('a member that was forgotten, and whose next join got no answer', () => {
  async function forgotten(start: (made: Process) => Promise<void>): Promise<Play> {
    const play = await joined(start)
    failNext(play, 'join', 'refused')
    play.live.group.forgetAll()
    await play.pass(30_000)
    expect(play.live.group.members).toEqual([])
    await play.pass(HEALED_MS)
    return play
  }

  test('is replaced', async () => {
    const play = await forgotten(consumed)
    expect(play.state).toEqual(play.well)
  })

  test('is told in the health of a wrapped consumer', async () => {
    const play = await forgotten(wrapped)
    expect([play.running, play.members]).toEqual([[false], [false]])
  })
})
