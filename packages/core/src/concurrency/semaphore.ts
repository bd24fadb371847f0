/** Tells a waiter that there is no use in waiting any more; the answer unsubscribes. */
export type OnStop = (onStop: () => void) => () => void

/** A fair counting semaphore. */
export interface Semaphore {
  /** The release at once, where a slot is free. */
  tryAcquire(): (() => void) | undefined
  /** Resolves with the release; undefined when it was told to stop while it waited. */
  acquire(whenStopping: OnStop): Promise<(() => void) | undefined>
}

export function createSemaphore(slots: number): Semaphore {
  const waiters = new Set<() => void>()
  let free = slots

  const release = (): void => {
    for (const next of waiters) {
      waiters.delete(next)
      next()
      return
    }
    free += 1
  }
  const once = (): (() => void) => {
    let held = true
    return () => {
      if (!held) return
      held = false
      release()
    }
  }

  const tryAcquire = (): (() => void) | undefined => {
    if (free === 0) return undefined
    free -= 1
    return once()
  }

  return {
    tryAcquire,
    acquire: (whenStopping) => {
      const acquired = tryAcquire()
      if (acquired !== undefined) return Promise.resolve(acquired)
      return new Promise((resolve) => {
        const granted = (): void => {
          unsubscribe()
          resolve(once())
        }
        const unsubscribe = whenStopping(() => {
          waiters.delete(granted)
          resolve(undefined)
        })
        waiters.add(granted)
      })
    },
  }
}
