import { createAloneLock, type Runtime } from '@onceward/core/ports'
import type { Dice } from './dice.ts'
import type { Actor, Scheduler } from './scheduler.ts'
import { watched } from './watched-lock.ts'

/** The virtual epoch: any instant will do. */
const EPOCH_MS = 1_700_000_000_000

/** One life of a process: dead once it crashed; its successor is another one. */
export interface Life extends Actor {
  readonly index: number
  readonly runtime: Runtime
  /** How far its wall clock is off, ms. */
  skewMs: number
  /** Timers that its handlers have set; a guard cannot end those. */
  pauses: number
}

export interface LifeOptions {
  readonly scheduler: Scheduler
  readonly dice: Dice
  readonly index: number
  readonly name: string
  /** Where every interleaving is tried: no chance, and none of the guard's work beside its deliveries. */
  readonly isPlain: boolean
  readonly onStall: (life: Life, forMs: number) => void
}

export function createLife(options: LifeOptions): Life {
  const { scheduler, dice, index, name, isPlain, onStall } = options
  const unwatched = createRuntime(scheduler, dice, () => life)
  const alone = watched({
    lock: unwatched.alone,
    frozenUntilMs: () => life.frozenUntilMs,
    monotonic: unwatched.monotonic,
    onStall: (forMs) => onStall(life, forMs),
  })
  const runtime = { ...unwatched, alone }
  const life: Life = {
    index,
    name,
    isAlive: true,
    frozenUntilMs: 0,
    skewMs: isPlain ? 0 : dice.from(-300_000, 300_000),
    pauses: 0,
    runtime: isPlain ? plain(runtime) : runtime,
  }
  return life
}

function plain(runtime: Runtime): Runtime {
  return {
    ...runtime,
    random: () => 0.5,
    setTimer: (callback, delayMs, options) =>
      options?.keepAlive === false ? () => undefined : runtime.setTimer(callback, delayMs),
  }
}

/** The runtime of an actor. All of its randomness is its own, so that what others do moves nothing here. */
export function createRuntime(
  scheduler: Scheduler,
  dice: Dice,
  actorOf: () => Actor & { readonly skewMs?: number },
): Runtime {
  let ids = 0
  return {
    now: () => (EPOCH_MS + scheduler.nowMs + (actorOf().skewMs ?? 0)) as ReturnType<Runtime['now']>,
    monotonic: () => scheduler.nowMs,
    random: () => dice.next(),
    uuid: () => {
      ids += 1
      return `${actorOf().name}-${ids}`
    },
    alone: createAloneLock(),
    setTimer: (callback, delayMs) => scheduler.setTimer(actorOf(), callback, delayMs),
  }
}
