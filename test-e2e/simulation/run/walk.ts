import { keyOf, TOKEN } from '../judge/state-key.ts'
import { hashText } from '../world/dice.ts'
import type { Life } from '../world/process.ts'
import { type Operation, quiet } from '../world/scheduler.ts'
import { type Member, World } from '../world/world.ts'
import type { Budget, SmallWorld } from './small-worlds.ts'

export type Move =
  | { readonly kind: 'operation'; readonly operation: Operation }
  | { readonly kind: 'time' }
  /** `lands`: what the process has sent still arrives, at any time. */
  | { readonly kind: 'crash'; readonly life: Life; readonly lands: boolean }
  | { readonly kind: 'flush' }
  | { readonly kind: 'duplicate'; readonly message: number }

/** What one life of a process knows. Its own state follows from that. */
interface Mind {
  /** Everything it has got to know since it was last idle, in order and with the time in between. */
  seen: number
  lastAtMs: number
  /** What an idle process still knows: how often it has deferred, and when it last read the history's name. */
  deferrals: number
  identityAtMs: number
}

/** One run of a small world, with what is needed to compare its states. */
export class Walk {
  readonly world: World
  #budget: Budget
  readonly #minds = new Map<string, Mind>()
  #wasTime = false

  constructor({ plan, budget }: SmallWorld, isTraced: boolean) {
    this.world = new World(plan, isTraced)
    this.#budget = budget
    this.world.scheduler.observe = (actor, what) => {
      if (actor.name.startsWith('P')) this.#learn(actor.name, what)
    }
  }

  /** Everything that can happen next. Time passes only where nothing else can. */
  moves(): readonly Move[] {
    const { scheduler } = this.world
    const ready = scheduler.operations.filter(({ isReady }) => isReady?.() ?? true)
    const operations = ready.map((operation) => ({ kind: 'operation', operation }) as const)
    if (this.world.isDone()) return [...operations.filter(isOfServers), ...this.#duplicates()]
    const faults = this.#wasTime ? [] : this.#faults()
    return operations.length > 0 ? [...operations, ...faults] : [{ kind: 'time' }, ...faults]
  }

  /**
   * Makes the move, and delivers the answers that are the only thing their process waits for: that is seen by nobody
   * else, so every order of it with what others do comes to the same.
   */
  async make(move: Move): Promise<void> {
    this.#make(move)
    await quiet()
    for (let answer = this.#onlyAnswer(); answer !== undefined; answer = this.#onlyAnswer()) {
      this.#make({ kind: 'operation', operation: answer })
      await quiet()
    }
    for (const member of this.world.members) if (member !== undefined) this.#forgetIfIdle(member)
  }

  /** Equal for states from which the same can happen. */
  key(): string {
    const minds = [...this.#minds].filter(([name]) => this.#matters(name))
    return keyOf(this.world, {
      minds: minds.sort(([one], [other]) => (one < other ? -1 : 1)),
      budget: this.#budget,
      wasTime: this.#wasTime,
    })
  }

  /** What a dead process knew follows from what it has sent, as long as that is on its way. */
  #matters(name: string): boolean {
    const { members, scheduler } = this.world
    return (
      members.some((member) => member?.life.name === name) ||
      scheduler.operations.some(({ label }) => label.endsWith(` of ${name}`))
    )
  }

  #make(move: Move): void {
    const { audit, broker, leases, scheduler } = this.world
    this.#wasTime = move.kind === 'time'
    switch (move.kind) {
      case 'operation':
        scheduler.step(({ operations }) => operations.indexOf(move.operation))
        return
      case 'time':
        scheduler.step(({ operations }) => operations.length)
        return
      case 'crash':
        this.#spend('crash')
        scheduler.note(`crash ${move.life.name}${move.lands ? ', what it sent arrives' : ''}`)
        audit.disturbed(move.life)
        this.world.crash(move.life, move.lands)
        // What it sent follows from what it knew.
        if (!move.lands) this.#minds.delete(move.life.name)
        return
      case 'flush':
        this.#spend('flush')
        scheduler.note('the lease store loses everything')
        leases.flush()
        return
      case 'duplicate':
        this.#spend('duplicate')
        scheduler.note(`message ${move.message} once more`)
        broker.duplicate(move.message)
    }
  }

  #onlyAnswer(): Operation | undefined {
    const { operations } = this.world.scheduler
    return operations.find(
      (operation) =>
        operation.label.endsWith('<') &&
        operations.every((other) => other.actor !== operation.actor || other === operation),
    )
  }

  #faults(): readonly Move[] {
    const { audit, leases, members } = this.world
    const busy = members.filter(
      (member) => member !== undefined && (audit.inHand.get(member.life)?.size ?? 0) > 0,
    )
    return [
      ...(this.#budget.crash === 0 ? [] : busy.flatMap((member) => this.#crashes(member?.life))),
      ...(this.#budget.flush > 0 && leases.states.size > 0 ? [{ kind: 'flush' } as const] : []),
      ...this.#duplicates(),
    ]
  }

  #crashes(life: Life | undefined): readonly Move[] {
    if (life === undefined) return []
    const hasSent = this.world.scheduler.waiting(life).some(({ label }) => label.endsWith('>'))
    return (hasSent ? [false, true] : [false]).map((lands) => ({ kind: 'crash', life, lands }))
  }

  #duplicates(): readonly Move[] {
    if (this.#budget.duplicate === 0) return []
    return this.world.plan.messages.map((_, message) => ({ kind: 'duplicate', message }))
  }

  #spend(fault: keyof Budget): void {
    this.#budget = { ...this.#budget, [fault]: this.#budget[fault] - 1 }
  }

  #mind(name: string): Mind {
    const mind = this.#minds.get(name) ?? { seen: 0, lastAtMs: 0, deferrals: 0, identityAtMs: 0 }
    this.#minds.set(name, mind)
    return mind
  }

  #learn(name: string, what: string): void {
    const { nowMs } = this.world.scheduler
    const mind = this.#mind(name)
    const sinceMs = mind.seen === 0 ? 0 : nowMs - mind.lastAtMs
    mind.seen = hashText(`${sinceMs} ${what.replace(TOKEN, '$1')}`, mind.seen)
    mind.lastAtMs = nowMs
    if (what === 'defer>') mind.deferrals += 1
    if (what === 'identity<') mind.identityAtMs = nowMs
  }

  /** A process with nothing in hand is as it was at its start, but for little. */
  #forgetIfIdle({ life }: Member): void {
    const { audit, scheduler } = this.world
    if ((audit.inHand.get(life)?.size ?? 0) > 0 || scheduler.timersOf(life) > 0) return
    if (scheduler.waiting(life).every(({ label }) => label === 'receive>')) {
      const mind = this.#mind(life.name)
      mind.seen = 0
      // For ever ago.
      mind.lastAtMs = Number.NEGATIVE_INFINITY
    }
  }
}

const isOfServers = (move: Move): boolean =>
  move.kind === 'operation' && move.operation.actor.name === 'servers'
