import { describeError } from '../model/errors.ts'
import type { Logger } from '../model/logger.ts'
import type { AloneLock, Release, Wait } from '../model/runtime.ts'
import { AsyncLocalStorage } from '../node.ts'

/** Maximum wait of an event that must run alone, ms. Other runs wait behind it, so it must not wait for long. */
export const ALONE_WAIT_MS = 2_000

type Mode = 'shared' | 'exclusive'

interface Waiter {
  readonly mode: Mode
  /** Ends the wait. */
  readonly leave: (taken: Release | undefined) => void
}

/** One grant of the lock: for a run, and for the runs that its handler starts. */
interface Hold {
  readonly mode: Mode
  runs: number
}

/** A release with its hold, until it is called. */
interface Grant extends Release {
  hold?: Hold | undefined
}

export function createAloneLock(): AloneLock {
  return new FairLock()
}

class FairLock implements AloneLock {
  readonly version = 1
  /** A handler that has ended, or that is past its deadline, holds nothing, although calls it made may still run. */
  readonly #handlers = new AsyncLocalStorage<Grant>()
  readonly #waiters = new Set<Waiter>()
  #sharers = 0
  #isExclusive = false

  tryShared(): Release | undefined {
    const outer = this.#handlers.getStore()?.hold
    if (outer !== undefined) return this.#join(outer)
    const isFree = this.#waiters.size === 0 && !this.#isExclusive
    return isFree ? this.#take('shared') : undefined
  }

  shared(wait: Wait = {}): Promise<Release | undefined> {
    const release = this.tryShared()
    return release === undefined ? this.#wait('shared', wait) : Promise.resolve(release)
  }

  exclusive(wait: Wait = {}): Promise<Release | undefined> {
    if (this.isInside()) return Promise.resolve(undefined)
    const isFree = this.#waiters.size === 0 && this.#isGrantable('exclusive')
    if (isFree) return Promise.resolve(this.#take('exclusive'))
    return this.#wait('exclusive', wait)
  }

  runInside<Result>(release: Release, task: () => Result): Result {
    return this.#handlers.run(release as Grant, task)
  }

  isInside(): boolean {
    return this.#handlers.getStore()?.hold !== undefined
  }

  #isGrantable(mode: Mode): boolean {
    return !this.#isExclusive && (mode === 'shared' || this.#sharers === 0)
  }

  #take(mode: Mode): Release {
    if (mode === 'shared') this.#sharers += 1
    else this.#isExclusive = true
    return this.#join({ mode, runs: 0 })
  }

  #join(hold: Hold): Release {
    hold.runs += 1
    const release: Grant = () => {
      if (release.hold === undefined) return
      release.hold = undefined
      hold.runs -= 1
      if (hold.runs > 0) return
      if (hold.mode === 'shared') this.#sharers -= 1
      else this.#isExclusive = false
      if (this.#waiters.size > 0) this.#grantNext()
    }
    release.hold = hold
    return release
  }

  #grantNext(): void {
    for (const waiter of this.#waiters) {
      if (!this.#isGrantable(waiter.mode)) return
      waiter.leave(this.#take(waiter.mode))
    }
  }

  #wait(mode: Mode, { limit, stop }: Wait): Promise<Release | undefined> {
    return new Promise((resolve) => {
      let cancel: (() => void) | undefined
      let unsubscribe: (() => void) | undefined
      const leave = (taken: Release | undefined): void => {
        this.#waiters.delete(waiter)
        cancel?.()
        unsubscribe?.()
        resolve(taken)
      }
      const giveUp = (): void => {
        leave(undefined)
        // The runs behind this waiter waited only for its turn.
        this.#grantNext()
      }
      const waiter: Waiter = { mode, leave }
      this.#waiters.add(waiter)
      cancel = limit?.runtime.setTimer(giveUp, limit.ms)
      unsubscribe = stop?.(giveUp)
    })
  }
}

const PROCESS_LOCK = Symbol.for('onceward.alone')

/** Used by all guards of this copy of onceward if another version of onceward has left an unknown lock. */
const ownLock: AloneLock = createAloneLock()

/**
 * The lock of this process. All copies of onceward in a process share it. Never throws: if this copy does not know the
 * lock that another version created, it uses its own lock.
 */
export function processAloneLock(logger?: Pick<Logger, 'warn'>): AloneLock {
  try {
    const holder = globalThis as { [PROCESS_LOCK]?: unknown }
    holder[PROCESS_LOCK] ??= createAloneLock()
    const lock = holder[PROCESS_LOCK]
    if (isAloneLock(lock)) return lock
    logger?.warn({ found: typeof lock }, UNKNOWN_LOCK)
  } catch (error) {
    logger?.warn({ err: describeError(error) }, UNKNOWN_LOCK)
  }
  return ownLock
}

const UNKNOWN_LOCK =
  'events that must run alone wait only for the runs of this copy of onceward: another version of it is loaded, use one version in the process'

const METHODS = ['tryShared', 'shared', 'exclusive', 'runInside', 'isInside'] as const

function isAloneLock(lock: unknown): lock is AloneLock {
  if (typeof lock !== 'object' || lock === null) return false
  const known = lock as Partial<Record<keyof AloneLock, unknown>>
  return known.version === 1 && METHODS.every((method) => typeof known[method] === 'function')
}
