import type { Turn } from '../concurrency/semaphore.ts'
import type { StopSignals } from '../concurrency/stop-signals.ts'
import type { InFlightEvent } from '../model/in-flight-event.ts'
import type { BeginRequest, Begun, NextBegin } from '../model/inbox.ts'
import type { Release } from '../model/runtime.ts'
import { tightestOf } from '../options/routes.ts'
import { type Engine, mayShare, type Passenger } from './engine.ts'
import { isFresh } from './pending-event.ts'

/*
 * The text that commits a transaction begins the next one (design.md §15). A run that waits for a slot has a ticket. The
 * run that commits takes the first one along, and hands its slot over.
 */

/**
 * Longest wait for a row, ms, behind a COMMIT whose answer comes with that of the claim. Under many inserts, a shorter
 * wait would end while the table is being extended.
 */
export const LEAST_WAIT_MS = 25

interface Waiting {
  readonly engine: Engine
  readonly signals: StopSignals
}

/** A run that waits for a slot, and that may begin behind the COMMIT of another one. */
export class Rider implements Passenger {
  turn?: Turn | undefined
  /** Its transaction, if it got its slot from a run that took it along. */
  aboard: Aboard | undefined
  readonly #waiting: Waiting
  readonly #members: readonly InFlightEvent[]

  constructor(waiting: Waiting, members: readonly InFlightEvent[]) {
    this.#waiting = waiting
    this.#members = members
  }

  request(): BeginRequest | undefined {
    const { engine, signals } = this.#waiting
    const members = this.#members
    if (signals.isStopping() || (members.length > 1 && !mayShare(engine))) return undefined
    for (const { event, lease } of members) {
      if (lease?.lost.aborted === true || engine.seenDone.has(event.id)) return undefined
    }
    const { options } = engine
    const limits = options.routes === undefined ? options : tightestOf(options, members)
    return {
      claim: { kind: 'fresh', events: members.map(({ event }) => event) },
      waitMs: LEAST_WAIT_MS,
      budgetMs: signals.bounded(limits.deadlineMs),
    }
  }

  board(aboard: Parameters<Passenger['board']>[0]): void {
    this.aboard = new Aboard({ ...aboard, members: this.#members.length })
  }
}

/** First deliveries that nothing suspects: the others are counted or read before their transaction. */
export function riderOf(waiting: Waiting, members: readonly InFlightEvent[]): Rider | undefined {
  // A run inside of a handler holds the lock of that handler, and not its own.
  const mayRide = members.every(isFresh) && !waiting.engine.options.runtime.alone.isInside()
  return mayRide ? new Rider(waiting, members) : undefined
}

type AboardParts = Parameters<Passenger['board']>[0] & { readonly members: number }

/** The transaction that was begun behind the COMMIT of another run. */
export class Aboard {
  readonly hold: Release
  readonly askedAtMs: number
  readonly #members: number
  #begun: Promise<Begun<unknown>> | undefined

  constructor({ askedAtMs, begun, hold, members }: AboardParts) {
    this.hold = hold
    this.askedAtMs = askedAtMs
    this.#begun = begun
    this.#members = members
  }

  /** Whether nobody has taken the transaction yet. */
  get isOpen(): boolean {
    return this.#begun !== undefined
  }

  /** The transaction, if it was begun with these events; otherwise it is rolled back, and `begin` is called. */
  async takeOr(members: number, begin: () => Promise<Begun<unknown>>): Promise<Begun<unknown>> {
    const begun = this.#begun
    if (begun !== undefined && members === this.#members) {
      this.#begun = undefined
      return begun
    }
    await this.leave()
    return begin()
  }

  /** Rolls back what nobody has taken. No attempt is counted. */
  async leave(): Promise<void> {
    const begun = this.#begun
    this.#begun = undefined
    if (begun !== undefined) await rollBack(begun)
  }
}

async function rollBack(begun: Promise<Begun<unknown>>): Promise<void> {
  const end = await begun.catch(() => undefined)
  if (end?.kind === 'open') await end.transaction.rollback()
}

/** A run whose COMMIT may take the next run along. */
export interface Driver {
  /** Released at the end of the run. */
  slot: Release
  readonly pending: ReadonlySet<unknown>
}

/**
 * What the COMMIT of a run may begin, while others wait. Undefined if this run needs its slot after its commit.
 *
 * @param claimed - Number of its events in the transaction.
 */
export function nextOf(
  { options, slots }: Engine,
  driver: Driver | undefined,
  claimed: number,
): NextBegin<unknown> | undefined {
  if (driver?.pending.size !== claimed) return undefined
  return options.runtime.alone.isInside() ? undefined : new Next(slots, options, driver)
}

class Next implements NextBegin<unknown> {
  readonly #slots: Engine['slots']
  readonly #options: Engine['options']
  readonly #driver: Driver
  #taken:
    | { readonly rider: Passenger; readonly hold: Release; readonly askedAtMs: number }
    | undefined

  constructor(slots: Engine['slots'], options: Engine['options'], driver: Driver) {
    this.#slots = slots
    this.#options = options
    this.#driver = driver
  }

  take(): BeginRequest | undefined {
    const rider = this.#slots.nextTicket()
    const request = rider?.request()
    if (rider?.turn === undefined || request === undefined) return undefined
    const { runtime } = this.#options
    // An event that must run alone waits. Nothing else starts before it.
    const hold = runtime.alone.tryShared()
    if (hold === undefined) return undefined
    rider.turn.step()
    this.#taken = { rider, hold, askedAtMs: runtime.monotonic() }
    return request
  }

  begun(begun: Promise<Begun<unknown>> | undefined): void {
    if (this.#taken === undefined) return
    const { askedAtMs, hold, rider } = this.#taken
    const { turn } = rider
    if (turn === undefined || begun === undefined) {
      hold()
      turn?.goBack()
      // It was stopped while the text was on its way.
      if (begun !== undefined) void rollBack(begun)
      return
    }
    rider.board({ hold, begun, askedAtMs })
    const { slot } = this.#driver
    this.#driver.slot = () => undefined
    turn.pass(slot)
  }
}
