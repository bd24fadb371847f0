import { DEFAULT_BROKER } from '../brokers/index.ts'
import { WORKER } from '../support/workers/worker-process.ts'
import { checkOutRelease } from './older-release.ts'
import type { RunOptions } from './options.ts'
import { planRound } from './plan.ts'
import { again, isFine } from './report.ts'
import { playRound, type RoundResult } from './round.ts'
import { Servers } from './servers.ts'

/**
 * Plays rounds until the time is over or a round goes wrong.
 *
 * @throws if a round does not end, with the command that repeats it.
 */
export async function run(
  { beside, brokers, events, minutes, rounds, seed }: RunOptions,
  onRound: (result: RoundResult) => void,
): Promise<readonly RoundResult[]> {
  const endsAt = performance.now() + minutes * 60_000
  const goesOn = (played: number): boolean =>
    rounds === undefined ? played === 0 || performance.now() < endsAt : played < rounds
  const results: RoundResult[] = []
  await using older = beside === undefined ? undefined : await checkOutRelease(beside)
  const scripts = older === undefined ? [] : [older.worker, WORKER]
  await using servers = await Servers.start()
  while (goesOn(results.length) && results.every(isFine)) {
    const index = results.length
    const broker = brokers[index % brokers.length] ?? DEFAULT_BROKER
    const plan = planRound({ seed: seed + index, broker, events, beside })
    const result = await playRound(plan, { servers, scripts }).catch((error: unknown) => {
      throw new Error(`a round did not end; once more: ${again(plan)}`, { cause: error })
    })
    results.push(result)
    onRound(result)
  }
  return results
}
