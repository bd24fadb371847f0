import type { Life } from '../world/process.ts'
import type { Scheduler } from '../world/scheduler.ts'

/** A process looks at least so often, and what it had begun by then has started its handler, ms. */
const LOOK_MS = 2_000
/** From the entry of a call to its handler: claims, counts and the wait for a row. */
const BEGIN_MS = 600
/** A shared transaction that was begun runs its other events too: it has one deadline. */
const BEGIN_SHARED_MS = 9_600

interface Pause {
  readonly fromMs: number
  readonly untilMs: number
}

/** Judges that no handler starts while its consumer is paused. */
export class PauseAudit {
  readonly #scheduler: Scheduler
  readonly #violate: (what: string) => void
  readonly #beginMs: number
  /** Of the operator. */
  #pause: Pause | undefined
  /** Of a handler, which its process knows at once. */
  readonly #own = new Map<Life, Pause>()
  /** From when on a process could look: it did not live before, was frozen, or had no connection. */
  readonly #lookedFromMs = new Map<Life, number>()
  #databaseUpAtMs = 0

  constructor(scheduler: Scheduler, isShared: boolean, violate: (what: string) => void) {
    this.#beginMs = isShared ? BEGIN_SHARED_MS : BEGIN_MS
    this.#scheduler = scheduler
    this.#violate = violate
  }

  /** In the place of the pause in force, whose end is all that a process knows until it looks again. */
  paused(untilMs: number): void {
    this.#pause = { fromMs: this.#scheduler.nowMs, untilMs }
    this.#own.clear()
  }

  resumed(): void {
    this.#pause = undefined
    this.#own.clear()
  }

  pausedFor(life: Life, ms: number): void {
    const { nowMs } = this.#scheduler
    this.#own.set(life, { fromMs: nowMs, untilMs: nowMs + ms })
  }

  blind(life: Life, untilMs: number): void {
    this.#lookedFromMs.set(life, Math.max(untilMs, this.#lookedFromMs.get(life) ?? 0))
  }

  databaseDown(untilMs: number): void {
    this.#databaseUpAtMs = Math.max(untilMs, this.#databaseUpAtMs)
  }

  started(life: Life, key: string): void {
    const fromMs = Math.max(this.#lookedFromMs.get(life) ?? 0, this.#databaseUpAtMs)
    this.#judge(this.#pause, fromMs, LOOK_MS + this.#beginMs, `${key} started in ${life.name}`)
    this.#judge(
      this.#own.get(life),
      life.frozenUntilMs,
      this.#beginMs,
      `${key} started in its own ${life.name}`,
    )
  }

  #judge(pause: Pause | undefined, knownFromMs: number, graceMs: number, what: string): void {
    const { nowMs } = this.#scheduler
    if (pause === undefined || nowMs >= pause.untilMs) return
    const forMs = nowMs - Math.max(pause.fromMs, knownFromMs)
    if (forMs > graceMs)
      this.#violate(`${what} ${Math.round(forMs)} ms after its consumer was paused`)
  }
}
