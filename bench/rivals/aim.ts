import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import type { Cache } from '../redis/testbed.ts'
import type { Moment } from './wire.ts'

/** What happens to Redis: nothing, FLUSHALL at each kill, or dead from the first kill to the last. */
export const FATES = ['up', 'flushed', 'down'] as const
export type Fate = (typeof FATES)[number]

/** How many effects each worker writes before it is killed. The numbers differ, so that the kills do. */
const WRITES_BEFORE = [3, 11, 7, 16, 1, 13, 5, 9, 2, 14] as const

/** A worker that writes nothing for this long, because its Redis is down, is killed nevertheless. */
const STANDSTILL_MS = 5_000

/** Kills one worker after the other, each at its planned moment. */
export class Aim {
  #writes = 0
  #plan: { readonly moment: Moment; readonly after: number } | undefined
  #worker: ChildProcess | undefined

  async killAll(
    start: () => ChildProcess | Promise<ChildProcess>,
    struck: (kill: number) => Promise<void>,
  ): Promise<void> {
    for (const [kill, after] of WRITES_BEFORE.entries()) {
      this.#writes = 0
      this.#plan = { moment: kill % 2 === 0 ? 'committed' : 'written', after }
      const worker = await start()
      this.#worker = worker
      const timer = setTimeout(() => worker.kill('SIGKILL'), STANDSTILL_MS)
      await once(worker, 'exit')
      clearTimeout(timer)
      await struck(kill)
    }
  }

  /** Called before the worker learns of the moment, so that it can be killed first. */
  at(moment: Moment): void {
    if (moment === 'written') this.#writes += 1
    if (this.#plan?.moment !== moment || this.#writes < this.#plan.after) return
    this.#plan = undefined
    this.#worker?.kill('SIGKILL')
  }
}

export async function strike(cache: Cache, fate: Fate, kill: number): Promise<void> {
  if (fate === 'flushed') await cache.client.flushall()
  if (fate === 'down' && kill === 0) await cache.kill()
  if (fate === 'down' && kill === WRITES_BEFORE.length - 1) await cache.restart()
}
