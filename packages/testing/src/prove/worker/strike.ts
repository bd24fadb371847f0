import { closeSync, openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import type { Point } from '../points.ts'
import { type ArmedBlow, blowFile, type TakenBlow } from '../protocol.ts'

export type Hit = Omit<TakenBlow, 'pid'>

/** The blow that is due, if any, and how this process takes it. */
export class Strike {
  readonly #folder: string
  #armed: ArmedBlow | undefined

  constructor(folder: string) {
    this.#folder = folder
  }

  arm(blow: ArmedBlow | undefined): void {
    this.#armed = blow
  }

  isDue(point: Point): boolean {
    return this.#armed?.point === point
  }

  /**
   * Kills this process at once, or stops it if the blow is a freeze, unless another worker was faster. No signal handler, no
   * `finally` and no flush runs.
   */
  take(hit: Hit): void {
    const blow = this.#armed
    this.#armed = undefined
    if (blow === undefined || !this.#isMine(blow, hit)) return
    process.kill(process.pid, blow.point === 'frozen' ? 'SIGSTOP' : 'SIGKILL')
  }

  /** An exclusive file: one worker of all creates it. */
  #isMine({ number }: ArmedBlow, hit: Hit): boolean {
    try {
      const file = openSync(join(this.#folder, blowFile(number)), 'wx')
      writeSync(file, JSON.stringify({ pid: process.pid, ...hit } satisfies TakenBlow))
      closeSync(file)
      return true
    } catch {
      return false
    }
  }
}
