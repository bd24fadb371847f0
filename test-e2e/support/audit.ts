import { expect } from 'vitest'
import { effectsReach, onceEach, stillAlive } from './effects.ts'
import type { Testbed } from './testbed.ts'
import type { Order } from './workers/protocol.ts'
import type { WorkerProcess } from './workers/worker-process.ts'

/**
 * Nothing is lost, doubled, dead or left in the broker. Every worker that was not killed lives, and ends when it is
 * told to. Ends the workers, because some brokers count all that is left only then.
 */
export async function endsWithEverythingOnce(
  testbed: Testbed,
  of: readonly Order[],
): Promise<void> {
  await effectsReach(testbed, of.length)
  await testbed.drained()
  await nothingInHand(testbed)
  const living = testbed.workers.filter(({ isAlive }) => isAlive)
  await endAll(testbed, living)
  const effects = await testbed.effects()
  const wrong = of.filter(({ id }) => effects[id] !== 1).map(({ id }) => id)
  expect(wrong, await testbed.explain(wrong)).toEqual([])
  expect(effects).toEqual(onceEach(of))
  expect(await testbed.troubles()).toEqual([])
  expect(await testbed.queue?.deadLetters()).toEqual([])
}

/**
 * A worker that stops gives the messages in its hand back to the broker. A queue with a delivery limit counts that, so
 * after a few stops in a row it would dead-letter a message that never failed.
 */
async function nothingInHand(testbed: Testbed): Promise<void> {
  const living = testbed.workers.filter(({ isAlive }) => isAlive)
  const isIdle = async (): Promise<boolean> => {
    const healths = await Promise.all(living.map((worker) => worker.health()))
    return healths.every(({ inFlight }) => inFlight === 0)
  }
  await testbed.until(isIdle, { what: 'workers with nothing in hand' })
}

/** Ends the workers after what is in flight. One more worker settles what they gave back to the broker. */
async function endAll(testbed: Testbed, workers: readonly WorkerProcess[]): Promise<void> {
  stillAlive(workers)
  const ends = await Promise.all(workers.map((worker) => worker.stop()))
  const logs = workers.map(({ log }) => log.slice(-4_000)).join('\n')
  expect(new Set(ends), logs).toEqual(new Set([0]))
  while ((await testbed.queue?.depth()) !== 0) {
    const finisher = testbed.spawn('finisher')
    await finisher.start()
    await testbed.until(() => Promise.resolve(finisher.settled.length > 0), {
      what: 'the finisher to settle what was left',
    })
    await testbed.drained()
    await nothingInHand(testbed)
    expect(await finisher.stop(), finisher.log.slice(-4_000)).toBe(0)
  }
}
