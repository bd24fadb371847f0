import type { CollectedMessage, CountedEvent, EventId, Failure } from '@onceward/core/ports'
import { eventIdOf } from '@onceward/core/ports'
import { YOUNG_MS } from '../../../packages/core/src/model/attempt-machine.ts'
import type { Command, EventState } from '../../../packages/core/src/model/state-machine.ts'
import { Acks } from '../brokers/acks.ts'
import type { Plan } from '../faults/plan.ts'
import type { Database, History } from '../stores/database.ts'
import type { Effect } from '../stores/transaction.ts'
import type { Life } from '../world/process.ts'
import type { Scheduler } from '../world/scheduler.ts'
import { type Case, type Counted, type CountHeard, toCase } from './cases.ts'
import { OutboxAudit, sendsOf } from './outbox-audit.ts'
import { PauseAudit } from './pause-audit.ts'
import { type Run, SideBySide } from './side-by-side.ts'

export const CONSUMER = 'simulated'

/** No claim waits longer for rows that others hold, all together, ms: `claimWaitMs` and what timers are late. */
const LONGEST_WAIT_MS = 300

/** Checks every promise after every step. The first that is broken ends the schedule. */
export class Audit {
  violation: string | undefined
  readonly cases: ReadonlyMap<EventId, Case>
  readonly inHand: Map<Life, Map<EventId, number>> = new Map()
  readonly acks: Acks
  readonly pauses: PauseAudit
  readonly outbox: OutboxAudit = new OutboxAudit((why) => this.violate(why))
  readonly #counted = new Map<EventId, Counted>()
  readonly #sideBySide = new SideBySide((why) => this.violate(why))
  readonly #plan: Plan
  readonly #scheduler: Scheduler
  database: Database | undefined
  failovers = 0

  constructor(plan: Plan, scheduler: Scheduler) {
    this.#plan = plan
    this.#scheduler = scheduler
    this.acks = new Acks(plan, this)
    this.pauses = new PauseAudit(scheduler, plan.transaction === 'batch', (why) =>
      this.violate(why),
    )
    this.cases = new Map(
      plan.events.map(({ key }, index) => {
        const id = eventIdOf(CONSUMER, undefined, key as Parameters<typeof eventIdOf>[2])
        return [id, toCase(key, id, index)]
      }),
    )
  }

  violate(what: string): void {
    this.violation ??= `${what} (step ${this.#scheduler.steps}, ${Math.round(this.#scheduler.nowMs)} ms)`
  }

  caseOf(id: EventId): Case {
    const found = this.cases.get(id)
    if (found === undefined) throw new Error(`The simulation knows no event ${id}.`)
    return found
  }

  byKey(key: string): Case {
    for (const one of this.cases.values()) if (one.key === key) return one
    throw new Error(`The simulation knows no event ${key}.`)
  }

  took(life: Life, id: EventId): void {
    const held = this.inHand.get(life) ?? new Map<EventId, number>()
    held.set(id, (held.get(id) ?? 0) + 1)
    this.inHand.set(life, held)
  }

  laidDown(life: Life, id: EventId): void {
    const held = this.inHand.get(life)
    const left = (held?.get(id) ?? 0) - 1
    if (left > 0) held?.set(id, left)
    else held?.delete(id)
  }

  /** A fault met the process: what it has counted may lose its attempt. */
  disturbed(life: Life): void {
    for (const [id, counted] of this.#counted) if (counted.life === life) this.caseOf(id).hits += 1
  }

  /** What is in hand may get into other hands too: one counts the run that a neighbour in the other's transaction undid. */
  takenOver(): void {
    for (const held of this.inHand.values()) for (const id of held.keys()) this.caseOf(id).hits += 1
  }

  get nowMs(): number {
    return this.#scheduler.nowMs
  }

  replayed(id: EventId): void {
    const one = this.caseOf(id)
    one.isReplayed = true
    one.forgiven += one.kills + one.failures
    one.kills = 0
    one.failures = 0
    this.#history.write(id, { failures: 0, dueAtMs: 0 })
  }

  killed(life: Life, by: EventId): void {
    this.caseOf(by).kills += 1
    const isCounted = this.#counted.get(by)?.life === life
    for (const [id, counted] of this.#counted) {
      // A count whose answer was lost is followed by no run: the lost connection has burnt it.
      if (counted.life !== life || id === by || !counted.isHeard()) continue
      const one = this.caseOf(id)
      one.burns += 1
      // The first delivery of a poison is not counted, so it may kill in company once more.
      if (!isCounted) one.freshBurns += 1
      if (one.burns - one.freshBurns > this.#killers().length + this.failovers) {
        this.violate(`a poison burnt a second attempt of ${one.key}`)
      }
      const fresh = this.#killers().reduce((sum, { freshDeliveries }) => sum + freshDeliveries, 0)
      if (one.freshBurns > fresh) {
        this.violate(`a fresh poison burnt too many attempts of ${one.key}`)
      }
    }
  }

  died(life: Life): void {
    this.inHand.delete(life)
    for (const [id, counted] of this.#counted) if (counted.life === life) this.#counted.delete(id)
  }

  /** After the fact; `lost` is the history that went with the old primary. */
  failedOver(lost: History): void {
    this.failovers += 1
    const { database } = this
    if (database === undefined) return
    this.acks.failedOver(lost, database)
    for (const one of this.cases.values()) {
      // The survivor may have a count whose end it lacks, and not have the replay that made the counts zero.
      if (!database.history.agrees(lost, one.id)) one.hits += 1 + one.forgiven
    }
  }

  // ---- the inbox

  /** `isHeard`: whether the process that has counted it knows, or may still hear of it. */
  counted(life: Life, { event, attempt }: CountedEvent, { isAlone, isHeard }: CountHeard): void {
    const receipt = String(event.delivery.headers['receipt'])
    this.#takenOverFrom(this.#counted.get(event.id), life, event.id)
    const atMs = this.nowMs
    if (life.isAlive && isHeard())
      this.#counted.set(event.id, { life, isAlone, isHeard, receipt, atMs })
    else this.caseOf(event.id).hits += 1
    this.#judgeAttempt(event.id, attempt)
    this.#assertDue(event.id)
    // The statement had waited for its row since before the freeze, which costs this attempt as it costs the others.
    if (life.frozenUntilMs > this.nowMs) this.caseOf(event.id).hits += 1
  }

  /** The other lives, but its transaction is run again in parts, and that of this event has not begun for too long. */
  #takenOverFrom(other: Counted | undefined, life: Life, id: EventId): void {
    if (this.#plan.transaction !== 'batch' || other === undefined || other.life === life) return
    if (other.life.isAlive && this.nowMs - other.atMs >= YOUNG_MS) this.caseOf(id).hits += 1
  }

  concluded(life: Life, id: EventId): void {
    if (this.#counted.get(id)?.life === life) this.#counted.delete(id)
  }

  /** The run of this copy ended with its connection: that has cost the attempt, not a poison that kills later. */
  cutOff(life: Life, id: EventId, receipt: string): void {
    if (this.#counted.get(id)?.receipt === receipt) this.concluded(life, id)
  }

  failed(failure: Failure): void {
    const { id } = failure.event
    const { failures: before } = this.#history.of(id)
    const failures = before + (failure.deferral === undefined ? 1 : 0)
    this.#history.write(id, { failures, dueAtMs: this.nowMs + failure.delayMs })
  }

  /** The server ended a silent transaction. */
  timedOut(ids: readonly EventId[]): void {
    for (const id of ids) this.caseOf(id).hits += 1
  }

  released(id: EventId): void {
    this.#history.write(id, { dueAtMs: 0 })
  }

  committed(
    life: Life,
    claimed: readonly EventId[],
    {
      effects,
      sends,
    }: { readonly effects: readonly Effect[]; readonly sends: readonly CollectedMessage[] },
  ): void {
    this.#judgeSends(claimed, sends)
    for (const { id, payload } of effects) {
      const before = this.#history.of(id).effects
      const one = this.caseOf(id)
      one.wasDecided = true
      this.#history.write(id, { effects: [...before, payload], failures: 0, dueAtMs: 0 })
      if (before.length > 0) this.violate(`two committed effects of ${one.key}`)
      if (!claimed.includes(id)) this.violate(`the effect of ${one.key} without its row`)
      this.#assertOrder(one)
    }
    for (const id of claimed) {
      this.concluded(life, id)
      if (!effects.some((effect) => effect.id === id)) {
        this.violate(`the row of ${this.caseOf(id).key} without its effect`)
      }
    }
  }

  #judgeSends(claimed: readonly EventId[], sends: readonly CollectedMessage[]): void {
    const { outbox } = this.#plan
    const expected = claimed.map((id) => {
      const { index, key } = this.caseOf(id)
      const texts = outbox === undefined ? [] : sendsOf(outbox, index, key)
      return [id, texts.map(({ payload }) => payload)] as const
    })
    this.outbox.committed(sends, new Map(expected))
  }

  /** Claims wait for rows, but never without end: that is how pools drain. */
  waited(forMs: number): void {
    if (forMs > LONGEST_WAIT_MS) this.violate(`a claim waited ${Math.round(forMs)} ms for a row`)
  }

  // ---- the handler

  /** A handler has started in the process; the returned function says that it has ended. */
  runs(life: Life, of: Run['of']): () => void {
    const counted = of === 'bystander' ? undefined : this.#counted.get(of)
    const isAlone = counted?.life === life && counted.isAlone
    return this.#sideBySide.started(life, { of, isAlone })
  }

  /** A run waited for events that waited to run alone. */
  stalled(life: Life, forMs: number): void {
    this.violate(`a run in ${life.name} waited ${Math.round(forMs)} ms behind waiting events`)
  }

  started(id: EventId, attempt: number): void {
    this.#judgeAttempt(id, attempt)
    this.#assertDue(id)
  }

  // ---- the lease store

  leased(id: EventId, step: LeaseStep): void {
    const { before, command, state } = step
    if (command.kind === 'claim') return
    const owns = before.kind === 'in-progress' && before.owner === command.ownerToken
    // Who hears that its lease is gone gives up its run, and the successor counts it.
    if (command.kind === 'renew' && !owns) this.caseOf(id).hits += 1
    if (!owns && state !== before)
      this.violate(`${command.kind} of a fenced owner changed ${this.caseOf(id).key}`)
    if (this.#plan.composition !== 'leases' || state === before) return
    const one = this.caseOf(id)
    if (state.kind === 'done' && one.successes === 0)
      this.violate(`${one.key} is done without a run that succeeded`)
    this.#history.write(id, { dueAtMs: state.kind === 'waiting' ? state.notBefore : 0 })
  }

  /** An effect outside of any database. */
  effectOutside(id: EventId): void {
    const one = this.caseOf(id)
    one.effects += 1
    if (one.effects > 1) this.violate(`two effects of ${one.key} under the policy dead-letter`)
  }

  get #history(): History {
    if (this.database === undefined) throw new Error('The audit has no database yet.')
    return this.database.history
  }

  #killers(): readonly Case[] {
    const killers = this.#plan.events.filter(({ behaviour }) => behaviour.kind === 'kills')
    return killers.map(({ key }) => this.byKey(key))
  }

  /** Attempts only grow, and only for a reason. */
  #judgeAttempt(id: EventId, attempt: number): void {
    const one = this.caseOf(id)
    if (this.#plan.composition !== 'leases' && attempt <= this.#history.of(id).failures) {
      this.violate(`attempt ${attempt} of ${one.key} after as many failures`)
    }
    const most = 1 + one.hits + one.burns + one.failures + one.kills
    if (attempt > most)
      this.violate(`attempt ${attempt} of ${one.key}, at most ${most} are explained`)
    if (one.kills > this.#plan.maxAttempts + one.freshDeliveries + one.hits) {
      this.violate(`${one.key} has killed ${one.kills} times and goes on`)
    }
  }

  #assertDue(id: EventId): void {
    if (this.#history.of(id).dueAtMs > this.nowMs)
      this.violate(`${this.caseOf(id).key} ran before it was due`)
  }

  /** Where the broker keeps an order, no effect overtakes an earlier event of its lane that is still to come. */
  #assertOrder(one: Case): void {
    if (this.#plan.broker !== 'fifo' && this.#plan.broker !== 'log') return
    const { lane } = this.#plan.events[one.index] ?? {}
    if (lane === undefined || one.isReplayed) return
    for (const other of this.cases.values()) {
      if (other.index >= one.index || this.#plan.events[other.index]?.lane !== lane) continue
      const state = this.#history.store.tables.rows.get(other.id)?.state
      if (state === 'done' || state === 'dead' || other.wasDecided || other.isReplayed) continue
      if (this.#isOvertakenByPlan(other)) continue
      this.violate(`${one.key} overtook ${other.key}`)
    }
  }

  /** Its message was refused: nothing of the event is to come. */
  #isOvertakenByPlan(other: Case): boolean {
    return !this.#plan.messages.some(
      ({ event, variant }) => event === other.index && variant === 'plain',
    )
  }
}

export interface LeaseStep {
  readonly before: EventState
  readonly state: EventState
  readonly command: Command
}
