import type { Release, Wait } from '../model/runtime.ts'
import { createWaitingLine } from './waiting-line.ts'

/** What ends the wait for a slot, and which queue the waiter joins. */
export interface SlotWait extends Wait {
  /** The waiter comes before all waiters without this mark. */
  readonly first?: boolean | undefined
}

/** A fair counting semaphore. */
export interface Semaphore {
  /** The number of slots. */
  readonly size: number
  /** The release function, if a slot is free now. */
  tryAcquire(): Release | undefined
  /** Resolves with the release function, or with undefined if the wait was stopped or reached its limit. */
  acquire(wait?: SlotWait): Promise<Release | undefined>
}

export function createSemaphore(size: number): Semaphore {
  const urgent = createWaitingLine<() => void>()
  const waiters = createWaitingLine<() => void>()
  let free = size
  let waiting = 0

  const takeSlot = (): Release => {
    let isHeld = true
    return () => {
      if (!isHeld) return
      isHeld = false
      const next = waiting === 0 ? undefined : (urgent.first() ?? waiters.first())
      if (next === undefined) free += 1
      else next()
    }
  }
  const tryAcquire = (): Release | undefined => {
    if (free === 0) return undefined
    free -= 1
    return takeSlot()
  }

  return {
    size,
    tryAcquire,
    acquire: ({ stop, limit, first = false } = {}) => {
      const acquired = tryAcquire()
      if (acquired !== undefined) return Promise.resolve(acquired)
      const queue = first ? urgent : waiters
      return new Promise((resolve) => {
        let cancel: (() => void) | undefined
        let unsubscribe: (() => void) | undefined
        let isWaiting = true
        const leave = (taken: Release | undefined): void => {
          if (isWaiting) waiting -= 1
          isWaiting = false
          leaveQueue()
          unsubscribe?.()
          cancel?.()
          resolve(taken)
        }
        const granted = (): void => leave(takeSlot())
        const giveUp = (): void => leave(undefined)
        const leaveQueue = queue.join(granted)
        waiting += 1
        cancel = limit?.runtime.setTimer(giveUp, limit.ms)
        unsubscribe = stop?.(giveUp)
      })
    },
  }
}
