import type { Confirmation, Destination } from '@onceward/core'
import { CallTimeoutError, withTimeout } from '@onceward/core/adapter'
import type { Runtime } from '@onceward/core/ports'
import type { StoredMessage } from './relay-store.ts'

/** Failed calls of a look in which nothing was taken, after which it tries no more. */
const TRIES = 3
/** A look does not wait longer for calls behind which it has nothing to do, ms. The next look goes on beside them. */
const SLOW_MS = 250

/** How the try of one message has ended. */
export interface Outcome {
  readonly message: StoredMessage
  /** Calls are numbered in the order in which they begin. */
  readonly call: number
  /** Of a message that failed in a call with others, only what is sure: it is tried by itself before it is judged. */
  readonly answer: Confirmation
}

export interface Publishing {
  readonly destination: Destination
  readonly runtime: Runtime
  /** Calls at the same time. */
  readonly slots: number
  /** Longest call, ms. */
  readonly callMs: number
  /** Called with the outcomes of a call that ends after its look. Resolves when they are recorded. */
  readonly onLate: (outcomes: readonly Outcome[]) => Promise<void>
}

/** What holds for one look. */
export interface Turn {
  /** Whether the next call may begin: the lease is valid, and nothing is drained. */
  readonly mayGoOn: () => boolean
  /** The destination has failed: one message at a time, drawn by lot, until it takes one. */
  readonly isProbe: boolean
}

interface Look extends Turn {
  pending: readonly StoredMessage[]
  readonly outcomes: Outcome[]
  /** Lanes in which a message was not taken. */
  readonly stopped: Set<string>
  running: number
  failed: number
  isTaken: boolean
  isOver: boolean
}

/**
 * Publishes the messages of one destination, in looks. No message overtakes one of its lane, and none follows one that
 * failed. What fails in a call with others is tried by itself, because the call does not say whose fault it was.
 */
export class Publisher {
  readonly #options: Publishing
  /** Messages in calls that run, or whose outcome is not recorded. */
  readonly #busy = new Map<string, StoredMessage>()
  /** Positions of messages that have failed in a call with others. */
  readonly #alone = new Set<string>()
  #calls = 0
  #running = 0
  #batches = 0
  #ended = Promise.withResolvers<void>()

  constructor(options: Publishing) {
    this.#options = options
  }

  get inFlight(): number {
    return this.#busy.size
  }

  /** Positions of the messages in calls that run. */
  get busy(): ReadonlySet<string> {
    return new Set(this.#busy.keys())
  }

  /** No call can begin. */
  get isFull(): boolean {
    return this.#running >= this.#options.slots
  }

  /** Resolves when no call runs any more. */
  ended(): Promise<void> {
    return this.#running === 0 ? Promise.resolve() : this.#ended.promise
  }

  /** Whether the message, or an earlier one of its lane, is in a call that runs. */
  isBusy({ lane, position }: StoredMessage): boolean {
    if (this.#busy.has(position)) return true
    return lane !== undefined && [...this.#busy.values()].some((one) => one.lane === lane)
  }

  /** Answers what has ended. Messages without an outcome are to be published again. */
  publish(messages: readonly StoredMessage[], turn: Turn): Promise<readonly Outcome[]> {
    const look: Look = {
      ...turn,
      ...{ pending: messages, outcomes: [], stopped: new Set<string>() },
      ...{ running: 0, failed: 0, isTaken: false, isOver: false },
    }
    return new Promise((resolve) => {
      let cancel: (() => void) | undefined
      const end = (): void => {
        look.isOver = true
        cancel?.()
        resolve(look.outcomes)
      }
      const pump = (): void => {
        if (look.isOver) return
        for (let some = this.#next(look); some.length > 0; some = this.#next(look)) {
          void this.#call(look, some).then(pump)
        }
        if (look.running === 0) end()
        else if (this.#waitsForSlot(look)) {
          cancel?.()
          cancel = undefined
        } else cancel ??= this.#options.runtime.setTimer(end, SLOW_MS)
      }
      pump()
    })
  }

  /** Those that may be in a call now: of each lane the first. */
  #open({ pending, stopped }: Look): readonly StoredMessage[] {
    const lanes = new Set(stopped)
    for (const { lane } of this.#busy.values()) if (lane !== undefined) lanes.add(lane)
    return pending.filter(({ lane }) => {
      if (lane === undefined) return true
      const isOpen = !lanes.has(lane)
      lanes.add(lane)
      return isOpen
    })
  }

  #isEnded({ failed, isTaken, mayGoOn }: Look): boolean {
    return (failed >= TRIES && !isTaken) || !mayGoOn()
  }

  #waitsForSlot(look: Look): boolean {
    return !this.#isEnded(look) && this.#open(look).length > 0
  }

  /** What the next call has. None: no call can begin now. */
  #next(look: Look): readonly StoredMessage[] {
    const isProbe = look.isProbe && !look.isTaken
    if (this.isFull || this.#isEnded(look) || (isProbe && look.running >= TRIES)) return []
    const { destination, runtime } = this.#options
    const open = this.#open(look)
    const first = open[isProbe ? Math.floor(runtime.random() * open.length) : 0]
    if (first === undefined) return []
    const isAlone = isProbe || this.#goesAlone(first)
    // One call of many at a time: the order of two of them on their way to the broker is not known.
    if (!isAlone && destination.keepsOrder === true && this.#batches > 0) return []
    const some = isAlone ? [first] : this.#batch(look, open)
    const taken = new Set(some)
    look.pending = look.pending.filter((message) => !taken.has(message))
    return some
  }

  #goesAlone({ attempt, position }: StoredMessage): boolean {
    return this.#options.destination.batch === 1 || attempt > 0 || this.#alone.has(position)
  }

  #batch({ pending }: Look, open: readonly StoredMessage[]): readonly StoredMessage[] {
    const { batch, keepsOrder } = this.#options.destination
    const fit = open.filter((message) => !this.#goesAlone(message))
    if (keepsOrder !== true) return fit.slice(0, batch)
    const lanes = new Set(fit.map(({ lane }) => lane))
    const some: StoredMessage[] = []
    for (const message of pending) {
      if (some.length === batch) break
      if (!lanes.has(message.lane)) continue
      if (!this.#goesAlone(message)) some.push(message)
      else if (message.lane !== undefined) lanes.delete(message.lane)
    }
    return some
  }

  async #call(look: Look, some: readonly StoredMessage[]): Promise<void> {
    const isAlone = some.length === 1
    this.#calls += 1
    const call = this.#calls
    look.running += 1
    this.#running += 1
    this.#batches += isAlone ? 0 : 1
    for (const message of some) this.#busy.set(message.position, message)
    const answers = await this.#answersOf(some)
    const { isOver } = look
    if (!isOver) this.#free(some)
    this.#batches -= isAlone ? 0 : 1
    this.#running -= 1
    look.running -= 1
    const outcomes = some.map((message, index) => ({ message, call, answer: answers[index] }))
    const isSure = ({ answer }: Outcome): boolean =>
      isAlone || answer === undefined || answer.refused !== undefined
    const sure = outcomes.filter(isSure)
    this.#remember(look, { sure, unsure: outcomes.filter((one) => !isSure(one)) })
    // Until then the next look does not take the later messages of its lane.
    if (isOver) void this.#options.onLate(sure).then(() => this.#free(some))
    else look.outcomes.push(...sure)
    if (this.#running > 0) return
    this.#ended.resolve()
    this.#ended = Promise.withResolvers()
  }

  #free(some: readonly StoredMessage[]): void {
    for (const { position } of some) this.#busy.delete(position)
  }

  #remember(
    look: Look,
    { sure, unsure }: { readonly sure: readonly Outcome[]; readonly unsure: readonly Outcome[] },
  ): void {
    for (const { answer, message } of sure) {
      this.#alone.delete(message.position)
      if (answer !== undefined && message.lane !== undefined) look.stopped.add(message.lane)
      if (answer === undefined || answer.refused !== undefined) look.isTaken = true
      else look.failed += 1
    }
    if (unsure.length === 0) return
    look.failed += 1
    for (const { message } of unsure) this.#alone.add(message.position)
    // They are the earliest of their lanes.
    look.pending = [...unsure.map(({ message }) => message), ...look.pending]
  }

  async #answersOf(some: readonly StoredMessage[]): Promise<readonly Confirmation[]> {
    const { callMs, destination, runtime } = this.#options
    const abort = new AbortController()
    try {
      const limits = { call: 'publishing', budgetMs: callMs }
      const calling = destination.publish(some, abort.signal)
      const answers: unknown = await withTimeout(runtime, calling, limits)
      if (Array.isArray(answers) && answers.length === some.length) return answers
      const unknown = new Error(SLIP)
      return some.map(() => ({ unknown }))
    } catch (error) {
      abort.abort(error)
      return some.map(() =>
        error instanceof CallTimeoutError ? { unknown: error } : { down: error },
      )
    }
  }
}

const SLIP =
  '`publish` of the destination must resolve with an array that has an answer for each message, in order: undefined if the message was confirmed.'
