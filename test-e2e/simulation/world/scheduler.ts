import { hashText } from './dice.ts'

/** Whoever waits: a process, or the servers and the network between them. */
export interface Actor {
  readonly name: string
  /** A dead actor never goes on: what it waited for is dropped. */
  isAlive: boolean
  /** Nothing of it happens before, ms of virtual time. */
  frozenUntilMs: number
}

/** A scheduling point: something that can happen next, if it is chosen. */
export interface Operation {
  readonly id: number
  readonly actor: Actor
  readonly label: string
  readonly sinceMs: number
  readonly run: () => void
  readonly isReady: (() => boolean) | undefined
}

interface Timer {
  readonly id: number
  readonly atMs: number
  readonly actor: Actor
  readonly callback: () => void
}

/** Nothing on the network takes longer, ms; more is a fault. Ten of them fit between a count and its latest start. */
const LONGEST_LATENCY_MS = 300

/** What can happen next. `time`: the clock moves to the next timer, and nothing arrives meanwhile. */
export interface Options {
  readonly operations: readonly Operation[]
  readonly time: boolean
}

/** Answers an index into `operations`, or their number for `time`. */
export type Choose = (options: Options) => number

/** Virtual time and everything that waits. One thing happens per step, and the code under test runs until it waits again. */
export class Scheduler {
  nowMs = 0
  steps = 0
  /** Of everything that happened, in order: equal for equal runs. */
  traceHash = 0x811c9dc5
  readonly trace: string[] | undefined
  /** Called for everything that an actor gets to know, for those who compare states. */
  observe: ((actor: Actor, what: string) => void) | undefined
  #operations: Operation[] = []
  #timers: Timer[] = []
  #lastId = 0

  constructor(isTraced: boolean) {
    this.trace = isTraced ? [] : undefined
  }

  add(actor: Actor, label: string, run: () => void, isReady?: () => boolean): Operation {
    this.#lastId += 1
    const operation = { id: this.#lastId, actor, label, sinceMs: this.nowMs, run, isReady }
    if (actor.isAlive) this.#operations.push(operation)
    return operation
  }

  remove(operation: Operation): void {
    this.#operations = this.#operations.filter((other) => other !== operation)
  }

  setTimer(actor: Actor, callback: () => void, delayMs: number): () => void {
    this.#lastId += 1
    const timer = { id: this.#lastId, atMs: this.nowMs + Math.max(0, delayMs), actor, callback }
    if (actor.isAlive) this.#timers.push(timer)
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer)
    }
  }

  /** The actor is dead: nothing of it goes on. */
  drop(actor: Actor): void {
    this.#operations = this.#operations.filter((operation) => operation.actor !== actor)
    this.#timers = this.#timers.filter((timer) => timer.actor !== actor)
  }

  waiting(actor: Actor): readonly Operation[] {
    return this.#operations.filter((operation) => operation.actor === actor)
  }

  timersOf(actor: Actor): number {
    return this.#timers.filter((timer) => timer.actor === actor).length
  }

  get size(): number {
    return this.#operations.length + this.#timers.length
  }

  get operations(): readonly Operation[] {
    return this.#operations
  }

  /** What waits, in words, and for how long: equal for equal states. */
  digest(): string {
    const operations = this.#operations.map(({ actor, label }) => `${actor.name} ${label}`)
    const timers = this.#timers.map(({ actor, atMs }) => `${actor.name} ${atMs - this.nowMs}`)
    return `${operations.sort().join()}|${timers.sort().join()}`
  }

  /** Lets one thing happen; false when nothing can. */
  step(choose: Choose): boolean {
    const ready = this.#operations.filter(
      ({ actor, isReady }) => actor.frozenUntilMs <= this.nowMs && (isReady?.() ?? true),
    )
    const timer = this.#nextTimer()
    const time = timer !== undefined && this.#mayPass(dueMs(timer), ready)
    if (ready.length === 0 && !time) return false
    const index = ready.length === 0 ? 0 : choose({ operations: ready, time })
    const chosen = ready[index]
    this.steps += 1
    if (chosen !== undefined) {
      this.remove(chosen)
      this.note(`${chosen.actor.name} ${chosen.label}`)
      this.observe?.(chosen.actor, chosen.label)
      chosen.run()
    } else if (timer !== undefined) {
      this.#timers = this.#timers.filter((other) => other !== timer)
      this.nowMs = Math.max(this.nowMs, dueMs(timer))
      this.note(`${timer.actor.name} timer`)
      this.observe?.(timer.actor, 'timer')
      timer.callback()
    }
    return true
  }

  note(what: string): void {
    this.traceHash = hashText(what, Math.imul(this.traceHash, 31) + Math.round(this.nowMs))
    this.trace?.push(`${this.steps} ${Math.round(this.nowMs)}ms ${what}`)
  }

  #mayPass(toMs: number, ready: readonly Operation[]): boolean {
    return ready.every(({ sinceMs, actor }) => {
      const from = Math.max(sinceMs, actor.frozenUntilMs)
      return toMs <= from + LONGEST_LATENCY_MS
    })
  }

  #nextTimer(): Timer | undefined {
    let next: Timer | undefined
    for (const timer of this.#timers) {
      if (next === undefined || isBefore(timer, next)) next = timer
    }
    return next
  }
}

const dueMs = ({ atMs, actor }: Timer): number => Math.max(atMs, actor.frozenUntilMs)

function isBefore(one: Timer, other: Timer): boolean {
  const [oneMs, otherMs] = [dueMs(one), dueMs(other)]
  return oneMs < otherMs || (oneMs === otherMs && one.id < other.id)
}

/**
 * Resolves when no promise can go on any more. Node runs a tick only after all microtasks have run; this is called
 * from a microtask, so the tick comes after everything that the code under test does without waiting for the world.
 */
export function quiet(): Promise<void> {
  return new Promise((resolve) => process.nextTick(resolve))
}
