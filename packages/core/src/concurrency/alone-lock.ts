/**
 * "Alone": a fair read/write lock. A run holds it shared; the run of an event whose last attempt gave no
 * verdict holds it exclusively, so that a poison that kills the process takes nobody with it (design.md §6).
 */
export interface AloneLock {
  /** The release at once, where nobody stands in the way. */
  tryShared(): (() => void) | undefined
  /** Resolves with the release once no exclusive holder or earlier waiter is left. */
  shared(): Promise<() => void>
  exclusive(): Promise<() => void>
}

interface Waiter {
  readonly mode: 'shared' | 'exclusive'
  readonly grant: () => void
}

export function createAloneLock(): AloneLock {
  const waiters: Waiter[] = []
  let sharers = 0
  let exclusive = false

  const grantable = (mode: Waiter['mode']): boolean =>
    mode === 'shared' ? !exclusive : !exclusive && sharers === 0

  const take = (mode: Waiter['mode']): (() => void) => {
    if (mode === 'shared') sharers += 1
    else exclusive = true
    let held = true
    return () => {
      if (!held) return
      held = false
      if (mode === 'shared') sharers -= 1
      else exclusive = false
      grantNext()
    }
  }

  const grantNext = (): void => {
    for (let next = waiters[0]; next !== undefined && grantable(next.mode); next = waiters[0]) {
      waiters.shift()
      next.grant()
    }
  }

  const acquire = (mode: Waiter['mode']): Promise<() => void> => {
    if (waiters.length === 0 && grantable(mode)) return Promise.resolve(take(mode))
    return new Promise((resolve) => {
      waiters.push({ mode, grant: () => resolve(take(mode)) })
    })
  }

  const isFree = (mode: Waiter['mode']): boolean => waiters.length === 0 && grantable(mode)

  return {
    tryShared: () => (isFree('shared') ? take('shared') : undefined),
    shared: () => acquire('shared'),
    exclusive: () => acquire('exclusive'),
  }
}

const PROCESS_LOCK = Symbol.for('onceward.alone')

/** The lock of this process; two copies of this package share it. */
export function processAloneLock(): AloneLock {
  const holder = globalThis as { [PROCESS_LOCK]?: AloneLock }
  holder[PROCESS_LOCK] ??= createAloneLock()
  return holder[PROCESS_LOCK]
}
