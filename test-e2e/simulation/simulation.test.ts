import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { turnOf } from '@onceward/testing'
import { describe, expect, test } from 'vitest'
import { createDice, seedOfCommit } from '../support/dice.ts'
import { MUTANTS } from './faults/mutants.ts'
import { drawPlan, type Plan } from './faults/plan.ts'
import type { Result } from './run/campaign.ts'
import { runPlan } from './run/run.ts'

const main = join(import.meta.dirname, 'run/main.ts')
/** Alone on two cores the longest takes a minute; a loaded machine may take ten times as long. */
const PATIENCE_MS = 900_000
/** Every commit plays new schedules; `npm run simulate` plays as many as one likes. */
const SEED = String(createDice(seedOfCommit()).seed)

async function simulate(...args: readonly string[]) {
  const options = ['--conditions=@onceward/source', main]
  const child = spawn(process.execPath, [...options, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const [[code], stdout, stderr] = await Promise.all([
    once(child, 'close'),
    text(child.stdout),
    text(child.stderr),
  ])
  return { code: Number(code), stdout, stderr }
}

async function tallied(...args: readonly string[]): Promise<Result> {
  const { stdout, stderr } = await simulate('--json', ...args)
  expect(stderr).toBe('')
  return JSON.parse(stdout)
}

for (const { count, tags } of [
  { count: 30, tags: [] },
  { count: 300, tags: ['nightly'] },
]) {
  describe(`${count} seeds`, { tags }, () => {
    test('a seed gives the same schedule to the last step, on any number of threads', async () => {
      const schedules = ['--schedules', String(count)]
      const once = await tallied(...schedules, '--seed', '7', '--threads', '2')
      const again = await tallied(...schedules, '--seed', '7', '--threads', '1')
      expect(again.traceHash).toBe(once.traceHash)
      expect(again.steps).toBe(once.steps)
      const other = await tallied(...schedules, '--seed', '8', '--threads', '2')
      expect(other.traceHash).not.toBe(once.traceHash)
    })

    test('a schedule does not depend on what ran before it in the same process', async () => {
      // The first seeds, and those that once depended on the machine's clock.
      const first = Array.from({ length: count }, (_, index) => index)
      const plans = [...first, 6_614, 10_132, 10_769, 10_793].map(drawPlan)
      const hashesOf = async (some: readonly Plan[]): Promise<readonly number[]> => {
        const hashes: number[] = []
        for (const plan of some) hashes.push((await runPlan(plan)).traceHash)
        return hashes
      }
      const forwards = await hashesOf(plans)
      const backwards = await hashesOf(plans.toReversed())
      expect(backwards.toReversed()).toEqual(forwards)
    })
  })
}

test('a reply that its guard gave up may still be on its way when the guard has drained', async () => {
  // One process is frozen for 15 s inside `afterCommit`, while the other one drains.
  expect((await runPlan(drawPlan(999_000_828))).violation).toBeUndefined()
})

interface World {
  readonly name: string
  readonly states: number
  readonly isComplete: boolean
  readonly violation?: unknown
}

// It has one thread, so it runs beside the schedules.
test.concurrent(
  'every interleaving of the small worlds keeps every promise',
  async () => {
    const { stdout } = await simulate('--explore', '--quick', '--json')
    const worlds: World[] = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
    for (const { name, states, isComplete, violation } of worlds) {
      expect({ name, isComplete, violation }).toEqual({ name, isComplete: true })
      console.log(`${name}: ${states} states`)
    }
  },
  PATIENCE_MS,
)

test.concurrent(
  'three thousand schedules of the real core keep every promise, and leave no memory behind',
  async () => {
    const tally = await tallied('--schedules', '3000', '--seed', SEED)
    expect(tally.failures).toEqual([])
    expect(tally.schedules).toBe(3_000)
    // What was meant to happen did happen: every fault struck often, and events ended both ways.
    expect(Object.keys(tally.faults).sort()).toEqual(FAULTS)
    for (const times of Object.values(tally.faults)) expect(times).toBeGreaterThan(30)
    expect(tally.processed).toBeGreaterThan(3_000)
    expect(tally.dead).toBeGreaterThan(600)
    expect(tally.heapAtEnd).toBeLessThan(tally.heapAfterFirst + 4 * 2 ** 20)
  },
  PATIENCE_MS,
)

const FAULTS = [
  'broker-cut',
  'clock-jump',
  'crash',
  'drain',
  'duplicate',
  'expire',
  'freeze',
  'lease-cut',
  'lease-down',
  'lease-flush',
  'lease-rollback',
  'pause',
  'pg-cut',
  'pg-failover',
  'pg-restart',
  'place-hangs',
  'place-refuses',
  'rebalance',
  'relay-crash',
  'relay-cut',
  'relay-drain',
  'relay-freeze',
  'replay',
  'sink-cut',
  'sink-dislikes',
  'sink-down',
  'sink-refuses',
]

test(
  'eight hundred schedules of clients that retry keep every promise',
  async () => {
    const tally = await tallied('--callers', '--schedules', '800', '--seed', SEED)
    expect(tally.failures).toEqual([])
    expect(tally.schedules).toBe(800)
    expect(Object.keys(tally.faults).sort()).toEqual(FAULTS_OF_CALLERS)
    for (const times of Object.values(tally.faults)) expect(times).toBeGreaterThan(20)
    expect(tally.processed).toBeGreaterThan(800)
  },
  PATIENCE_MS,
)

const FAULTS_OF_CALLERS = [
  ...['crash', 'freeze', 'hang-up', 'lease-cut', 'lease-down', 'lease-flush', 'pg-cut'],
  'pg-restart',
]

describe('historical bugs that are put back', () => {
  const soonFound = MUTANTS.filter(({ isSlow }) => isSlow !== true)
  for (const [index, { isOfCallers, name, trap, what }] of soonFound.entries()) {
    const turn = turnOf(index, { of: soonFound.length })
    test(`trap ${trap} is found: ${what}`, { ...turn, timeout: PATIENCE_MS }, async () => {
      const world = isOfCallers === true ? ['--callers'] : []
      const tally = await tallied('--mutant', name, '--schedules', '20000', ...world)
      expect(tally.failures.length).toBeGreaterThan(0)
      console.log(`${name}: ${tally.failures[0]?.violation}, after ${tally.schedules} schedules`)
    })
  }

  test('a failing seed is printed with the faults it needs and the command that replays it', async () => {
    const mutant = 'T8-in-flight-is-acked'
    const { code, stdout } = await simulate('--schedules', '100', '--mutant', mutant)
    expect(code).toBe(1)
    expect(stdout).toMatch(/seed \d+: e\d was acked without/)
    const command = stdout.match(/npm run simulate -- (--replay .*)$/m)?.[1] ?? ''
    const replay = command.replaceAll("'", '').split(' ')
    const again = await simulate(...replay)
    expect(again.code).toBe(1)
    expect(again.stdout.trimEnd().split('\n').at(-1)).toMatch(/^e\d was acked without/)
  })
})
