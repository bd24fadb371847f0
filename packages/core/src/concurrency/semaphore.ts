import type { Release, Wait } from '../model/runtime.ts'
import { createWaitingLine } from './waiting-line.ts'

/** What ends the wait for a slot, and which queue the waiter joins. */
export interface SlotWait<Kind extends Ticket = Ticket> extends Wait {
  /** The waiter comes before all waiters without this mark. */
  readonly first?: boolean | undefined
  /** The waiter may get the slot of another holder out of turn: {@link Semaphore.nextTicket}. */
  readonly ticket?: Kind | undefined
}

/** What others know of a waiter. */
export interface Ticket {
  /** Given while it waits. */
  turn?: Turn | undefined
}

/** The place of a waiter in the line. */
export interface Turn {
  /** Leaves the line without an answer. Then either `pass` or `goBack` is called, unless the wait ends by itself. */
  step(): void
  /** Ends the wait with the slot of another holder, who must not use it any more. */
  pass(slot: Release): void
  /** The waiter is the first one again. */
  goBack(): void
}

/** A fair counting semaphore. */
export interface Semaphore<Kind extends Ticket = Ticket> {
  /** The number of slots. */
  readonly size: number
  /** The release function, if a slot is free now. */
  tryAcquire(): Release | undefined
  /** Resolves with the release function, or with undefined if the wait was stopped or reached its limit. */
  acquire(wait?: SlotWait<Kind>): Promise<Release | undefined>
  /** The ticket of the waiter whose turn is next, if it has one. */
  nextTicket(): Kind | undefined
  /** Number of waiters. */
  readonly waiting: number
}

interface Waiter<Kind> {
  readonly ticket: Kind | undefined
  readonly grant: () => void
}

export function createSemaphore<Kind extends Ticket = Ticket>(size: number): Semaphore<Kind> {
  return new FairSemaphore<Kind>(size)
}

class FairSemaphore<Kind extends Ticket> implements Semaphore<Kind> {
  readonly size: number
  readonly #urgent = createWaitingLine<Waiter<Kind>>()
  readonly #waiters = createWaitingLine<Waiter<Kind>>()
  waiting = 0
  #free: number

  constructor(size: number) {
    this.size = size
    this.#free = size
  }

  tryAcquire(): Release | undefined {
    if (this.#free === 0) return undefined
    this.#free -= 1
    return this.#takeSlot()
  }

  acquire(wait: SlotWait<Kind> = {}): Promise<Release | undefined> {
    const acquired = this.tryAcquire()
    return acquired === undefined ? this.#wait(wait) : Promise.resolve(acquired)
  }

  nextTicket(): Kind | undefined {
    return this.#next()?.ticket
  }

  #next(): Waiter<Kind> | undefined {
    return this.#urgent.first() ?? this.#waiters.first()
  }

  #takeSlot(): Release {
    let isHeld = true
    return () => {
      if (!isHeld) return
      isHeld = false
      if (this.waiting === 0) this.#free += 1
      else this.#next()?.grant()
    }
  }

  #wait({ first = false, limit, stop, ticket }: SlotWait<Kind>): Promise<Release | undefined> {
    return new Promise((resolve) => {
      let cancel: (() => void) | undefined
      let unsubscribe: (() => void) | undefined
      let leaveLine: (() => void) | undefined
      const step = (): void => {
        if (leaveLine === undefined) return
        leaveLine()
        leaveLine = undefined
        this.waiting -= 1
      }
      const leave = (taken: Release | undefined): void => {
        step()
        if (ticket !== undefined) ticket.turn = undefined
        unsubscribe?.()
        cancel?.()
        resolve(taken)
      }
      const waiter: Waiter<Kind> = { ticket, grant: () => leave(this.#takeSlot()) }
      const join = (isFirst: boolean): void => {
        this.waiting += 1
        leaveLine = (isFirst ? this.#urgent : this.#waiters).join(waiter)
      }
      const goBack = (): void => {
        const acquired = this.tryAcquire()
        if (acquired === undefined) join(true)
        else leave(acquired)
      }
      join(first)
      if (ticket !== undefined) ticket.turn = { step, pass: leave, goBack }
      cancel = limit?.runtime.setTimer(() => leave(undefined), limit.ms)
      unsubscribe = stop?.(() => leave(undefined))
    })
  }
}
