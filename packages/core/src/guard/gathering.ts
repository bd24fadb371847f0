import { Lanes } from '../concurrency/lanes.ts'
import { onNextTurn } from '../concurrency/next-turn.ts'
import type { InFlightEvent } from '../model/in-flight-event.ts'
import type { Release, Runtime, SharePlan } from '../model/runtime.ts'
import { laneFollowerOutcome, type Outcome, stopsLane } from '../settlement/outcome.ts'
import { mayShare, runBatch } from '../transaction/batch.ts'
import type { Batch } from '../transaction/batch-state.ts'
import type { Engine } from '../transaction/engine.ts'
import { type PendingEvent, toPendingEvent } from '../transaction/pending-event.ts'
import type { SharePolicy } from '../transaction/share-policy.ts'
import { takeSlot } from './take-slot.ts'

/** An event that is ready for its run. */
export interface ReadyEvent {
  readonly member: InFlightEvent
  readonly run: Omit<Batch, 'pending'>
  /** Runs it in a transaction of its own, when there is a slot. */
  readonly alone: (pending: readonly PendingEvent[]) => Promise<void>
}

interface Waiting extends ReadyEvent {
  readonly pending: PendingEvent
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
  /** Ends the wait for a stop of its call. */
  leave: () => void
}

/**
 * Gathers events that are ready at the same time, of all calls, into transactions (`transaction: 'auto'`). A shared
 * transaction has one try: an event without an outcome after it runs as if it had come alone. Where one member's handler
 * failed, the others share one more transaction without it.
 */
export class Gathering {
  readonly #engine: Engine
  readonly #policy: SharePolicy
  #waiting: Waiting[] = []
  #running = 0
  #inHand = 0
  #isDue = false

  constructor(engine: Engine, policy: SharePolicy) {
    this.#engine = engine
    this.#policy = policy
  }

  /** Resolves when the event has its outcome. */
  async run(ready: ReadyEvent): Promise<void> {
    const { runtime } = this.#engine.options
    const pending = toPendingEvent(ready.member)
    const startedAtMs = runtime.monotonic()
    this.#inHand += 1
    const plan = this.#plan(startedAtMs)
    try {
      if (plan.size === 1 || !mayGather(runtime, pending)) return await ready.alone([pending])
      if (this.#waiting.length === 0 && this.#inHand <= plan.width)
        await this.#runNow(ready, pending)
      else await this.#gather(ready, pending)
      this.#policy.settled(plan, runtime.monotonic() - startedAtMs, this.#inHand)
    } finally {
      this.#inHand -= 1
    }
  }

  /** What holds for events that become ready now. */
  plan(): SharePlan {
    return this.#plan(this.#engine.options.runtime.monotonic())
  }

  #plan(nowMs: number): SharePlan {
    const plan = this.#policy.plan(nowMs, this.#inHand)
    return mayShare(this.#engine) ? plan : { ...plan, size: 1 }
  }

  /** With a slot for each event in hand, none waits for others. */
  async #runNow(ready: ReadyEvent, pending: PendingEvent): Promise<void> {
    this.#running += 1
    try {
      await ready.alone([pending])
    } finally {
      this.#ended()
    }
  }

  #gather(ready: ReadyEvent, pending: PendingEvent): Promise<void> {
    return new Promise((resolve, reject) => {
      const { member, run } = ready
      const waiting: Waiting = { ...ready, pending, resolve, reject, leave: () => undefined }
      this.#waiting.push(waiting)
      // Events that arrive in the same turn of the event loop may share a transaction.
      this.#dispatchSoon()
      waiting.leave = run.signals.whenStopping(() => {
        this.#waiting = this.#waiting.filter((each) => each !== waiting)
        run.onOutcome(member, { kind: 'abandoned', reason: 'closing' }, undefined)
        resolve()
      })
    })
  }

  #dispatchSoon(): void {
    if (this.#isDue) return
    this.#isDue = true
    const { nextTurn = onNextTurn } = this.#engine.options.runtime
    nextTurn(() => {
      this.#isDue = false
      this.#dispatch()
    })
  }

  #dispatch(): void {
    const { size, width } = this.plan()
    while (this.#waiting.length > 0 && this.#running < width) {
      // A fair share: the other transactions end soon too.
      const group = this.#take(Math.min(size, Math.ceil(this.#inHand / width)))
      this.#running += 1
      void this.#start(group).finally(() => this.#ended())
    }
  }

  #ended(): void {
    this.#running -= 1
    if (this.#waiting.length > 0) this.#dispatchSoon()
  }

  /** The first event and others of the same signals, each of another lane. */
  #take(most: number): readonly Waiting[] {
    const signals = this.#waiting[0]?.run.signals
    const lanes = new Set<string>()
    const group: Waiting[] = []
    const left: Waiting[] = []
    for (const [index, each] of this.#waiting.entries()) {
      if (group.length === most) {
        left.push(...this.#waiting.slice(index))
        break
      }
      const { lane } = each.member
      if (each.run.signals === signals && (lane === undefined || !lanes.has(lane))) {
        if (lane !== undefined) lanes.add(lane)
        each.leave()
        group.push(each)
      } else left.push(each)
    }
    this.#waiting = left
    return group
  }

  async #start(group: readonly Waiting[]): Promise<void> {
    const [first] = group as [Waiting]
    if (group.length === 1) return runAlone(first)
    const left = await this.#share(group)
    const rest = left.filter(({ pending }) => pending.failedBeside === false)
    const isOneFailed = rest.length === left.length - 1
    const apart = isOneFailed ? left.filter((each) => !rest.includes(each)) : left
    // The next transactions do not wait for neighbours that run alone.
    for (const each of apart) void runAlone(each)
    if (!isOneFailed) return
    const again = rest.length > 1 ? await this.#share(rest) : rest
    for (const each of again) void runAlone(each)
  }

  /** Answers the events that have no outcome. */
  async #share(group: readonly Waiting[]): Promise<readonly Waiting[]> {
    const left = new Set(group)
    try {
      await this.#runShared(group, left)
    } catch (error) {
      for (const { reject } of left) reject(error)
      return []
    }
    return [...left]
  }

  /** @param left - The events without an outcome. */
  async #runShared(group: readonly Waiting[], left: Set<Waiting>): Promise<void> {
    const byMember = new Map(group.map((each) => [each.member, each]))
    const { signals } = (group[0] as Waiting).run
    const onOutcome: Batch['onOutcome'] = (member, outcome, handlerMs) => {
      const each = byMember.get(member) as Waiting
      left.delete(each)
      each.run.onOutcome(member, outcome, handlerMs)
      each.resolve()
    }
    const slot = this.#engine.slots.tryAcquire() ?? (await this.#waitForSlot(signals))
    if (typeof slot !== 'function') {
      for (const { member } of group) onOutcome(member, slot, undefined)
      return
    }
    // All of them are of different lanes, so none follows another one.
    const lanes = new Lanes<Outcome>({ stopsLane, laneFollowerOutcome })
    const batch = { engine: this.#engine, signals, lanes, onOutcome, isOnce: true }
    const pending = group.map((each) => each.pending)
    await runBatch(batch, pending, slot)
  }

  #waitForSlot(signals: Batch['signals']): Promise<Release | Outcome> {
    const { options, slots } = this.#engine
    return takeSlot({ slots, runtime: options.runtime, signals })
  }
}

function runAlone({ alone, pending, reject, resolve }: Waiting): Promise<void> {
  return alone([pending]).then(resolve, reject)
}

/**
 * An event that may have been begun before is counted before it runs, and shares no transaction. An event that is
 * processed inside of a handler must not wait for that handler's transaction.
 */
function mayGather({ alone }: Runtime, { phase }: PendingEvent): boolean {
  return phase === 'fresh' && !alone.isInside()
}
