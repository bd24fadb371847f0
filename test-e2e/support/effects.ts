import { expect } from 'vitest'
import type { Testbed } from './testbed.ts'
import type { Order } from './workers/protocol.ts'
import type { WorkerProcess } from './workers/worker-process.ts'

export function orders(
  count: number,
  each: Omit<Order, 'id'> = {},
  prefix = 'order',
): readonly Order[] {
  return Array.from({ length: count }, (_, index) => ({ id: `${prefix}-${index}`, ...each }))
}

/** One effect for each order. */
export const onceEach = (of: readonly Order[]): Readonly<Record<string, number>> =>
  Object.fromEntries(of.map(({ id }) => [id, 1]))

/** Nothing is lost, doubled, dead or left in the queue. */
export async function everythingOnce(testbed: Testbed, of: readonly Order[]): Promise<void> {
  await testbed.drained()
  const effects = await testbed.effects()
  const wrong = of.filter(({ id }) => effects[id] !== 1).map(({ id }) => id)
  expect(wrong, await testbed.explain(wrong)).toEqual([])
  expect(effects).toEqual(onceEach(of))
  expect(await testbed.troubles()).toEqual([])
  expect(await testbed.queue?.deadLetters()).toEqual([])
}

/** None of the workers has ended, by a signal or by itself. */
export function stillAlive(workers: readonly WorkerProcess[]): void {
  for (const worker of workers) expect(worker.isAlive, worker.log.slice(-4_000)).toBe(true)
}

export async function effectsReach(testbed: Testbed, count: number): Promise<void> {
  await testbed.until(async () => Object.keys(await testbed.effects()).length >= count, {
    what: `${count} effects`,
  })
}
