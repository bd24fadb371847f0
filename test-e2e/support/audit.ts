import { expect } from 'vitest'
import { effectsReach, onceEach, stillAlive } from './effects.ts'
import type { TestStage } from './test-stage.ts'
import type { Order } from './workers/protocol.ts'
import type { WorkerProcess } from './workers/worker-process.ts'

/**
 * Nothing is lost, doubled, dead or left in the broker. Every worker that was not killed lives, and ends when it is
 * told to. Ends the workers, because some brokers count all that is left only then.
 */
export async function endsWithEverythingOnce(
  stage: TestStage,
  of: readonly Order[],
): Promise<void> {
  await effectsReach(stage, of.length)
  await stage.drained()
  await nothingInHand(stage)
  const living = stage.workers.filter(({ isAlive }) => isAlive)
  await endAll(stage, living)
  const effects = await stage.effects()
  const wrong = of.filter(({ id }) => effects[id] !== 1).map(({ id }) => id)
  expect(wrong, await stage.explain(wrong)).toEqual([])
  expect(effects).toEqual(onceEach(of))
  expect(await stage.troubles()).toEqual([])
  expect(await stage.queue?.deadLetters()).toEqual([])
}

/**
 * A worker that stops gives the messages in its hand back to the broker. A queue with a delivery limit counts that, so
 * after a few stops in a row it would dead-letter a message that never failed.
 */
async function nothingInHand(stage: TestStage): Promise<void> {
  const living = stage.workers.filter(({ isAlive }) => isAlive)
  const isIdle = async (): Promise<boolean> => {
    const healths = await Promise.all(living.map((worker) => worker.health()))
    return healths.every(({ inFlight }) => inFlight === 0)
  }
  await stage.until(isIdle, { what: 'workers with nothing in hand' })
}

/** Ends the workers after what is in flight. One more worker settles what they gave back to the broker. */
async function endAll(stage: TestStage, workers: readonly WorkerProcess[]): Promise<void> {
  stillAlive(workers)
  const ends = await Promise.all(workers.map((worker) => worker.stop()))
  const logs = workers.map(({ log }) => log.slice(-4_000)).join('\n')
  expect(new Set(ends), logs).toEqual(new Set([0]))
  while ((await stage.queue?.depth()) !== 0) {
    const finisher = stage.spawn('finisher')
    await finisher.start()
    await stage.until(() => Promise.resolve(finisher.settled.length > 0), {
      what: 'the finisher to settle what was left',
    })
    await stage.drained()
    await nothingInHand(stage)
    expect(await finisher.stop(), finisher.log.slice(-4_000)).toBe(0)
  }
}
