import type { AloneLock } from '../model/runtime.ts'

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
