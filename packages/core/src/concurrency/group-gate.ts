import type { Release, Wait } from '../model/runtime.ts'
import { createWaitingLine, type WaitingLine } from './waiting-line.ts'

interface Group {
  running: number
  waiting: number
  readonly line: WaitingLine<() => void>
}

/**
 * Bounds what runs at the same time of each group. A waiter has nothing but its place in the line of its group, so a group
 * that is full holds up no other one; those that got in queue for a slot in the order in which they got in.
 */
export class GroupGate {
  readonly #max: number
  readonly #groups = new Map<string, Group>()

  constructor(max: number) {
    this.#max = max
  }

  /** Resolves with the release, or with undefined if the wait was stopped or reached its limit. */
  acquire(name: string, { limit, stop }: Wait = {}): Promise<Release | undefined> {
    const group = this.#groups.get(name) ?? { running: 0, waiting: 0, line: createWaitingLine() }
    this.#groups.set(name, group)
    if (group.running < this.#max) return Promise.resolve(this.#enter(name, group))
    return new Promise((resolve) => {
      let cancel: (() => void) | undefined
      let unsubscribe: (() => void) | undefined
      let isWaiting = true
      const leave = (release?: Release): void => {
        if (!isWaiting) return
        isWaiting = false
        group.waiting -= 1
        leaveLine()
        cancel?.()
        unsubscribe?.()
        resolve(release)
      }
      group.waiting += 1
      const leaveLine = group.line.join(() => leave(this.#enter(name, group)))
      cancel = limit?.runtime.setTimer(() => leave(), limit.ms)
      unsubscribe = stop?.(() => leave())
    })
  }

  #enter(name: string, group: Group): Release {
    group.running += 1
    let isHeld = true
    return () => {
      if (!isHeld) return
      isHeld = false
      group.running -= 1
      group.line.first()?.()
      if (group.running + group.waiting === 0) this.#groups.delete(name)
    }
  }
}
