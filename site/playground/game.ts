import type { Message } from '../../test-e2e/simulation/brokers/broker.ts'
import { chooser } from '../../test-e2e/simulation/run/run.ts'
import { type Row, tell } from '../../test-e2e/simulation/run/told.ts'
import { createDice } from '../../test-e2e/simulation/world/dice.ts'
import { type Choose, quiet } from '../../test-e2e/simulation/world/scheduler.ts'
import { drawScenario, FROZEN_MS, type Strike, WORKERS } from './scenario.ts'
import type { Side } from './side.ts'
import { With } from './with.ts'
import { type Habit, Without } from './without.ts'

export interface GameOptions {
  readonly seed: number
  readonly habit: Habit
  /** Whether workers are also struck without the visitor's help. */
  readonly isStriking: boolean
}

export interface WorkerView {
  readonly state: 'waits' | 'works' | 'killed' | 'frozen'
  readonly order: string | undefined
  readonly doing: string
}

export interface SideView {
  readonly seconds: string
  /** Messages that the broker has, and whether a worker has got each of them. */
  readonly queue: readonly { readonly order: string; readonly isHidden: boolean }[]
  readonly workers: readonly WorkerView[]
  readonly charges: readonly { readonly order: string; readonly count: number }[]
  readonly log: readonly string[]
  readonly isOver: boolean
  readonly doubled: number
  /** Orders without a charge whose messages are gone. */
  readonly lost: number
}

/** Schedules end long before; what is still going on then goes round in circles. */
const MOST_STEPS = 2_000
const SHOWN_LINES = 7

/** One column of a game, and what strikes it. */
class Player {
  readonly side: Side
  readonly #keys: readonly string[]
  readonly #choose: Choose
  readonly #strikes: readonly Strike[]
  readonly #seen = new Map<string, number>()
  #lastId = 0

  constructor(side: Side, keys: readonly string[], choose: Choose, strikes: readonly Strike[]) {
    this.side = side
    this.#keys = keys
    this.#choose = choose
    this.#strikes = strikes
  }

  get isOver(): boolean {
    const { broker, scheduler } = this.side
    if (scheduler.steps > MOST_STEPS) return true
    const isIdle = scheduler.operations.every(({ label }) => label === 'receive>')
    const isWhole = indexes.every((index) => this.side.lifeOf(index) !== undefined)
    return broker.isEmpty() && isIdle && isWhole
  }

  async step(): Promise<void> {
    if (this.isOver) return
    this.side.scheduler.step(this.#choose)
    await quiet()
    this.#strike()
  }

  kill(index: number): void {
    const life = this.side.lifeOf(index)
    if (life === undefined) return
    this.side.scheduler.note(`fault crash ${life.name}`)
    this.side.kill(index)
  }

  freeze(index: number): void {
    const life = this.side.lifeOf(index)
    if (life === undefined) return
    const { scheduler } = this.side
    scheduler.note(`fault freeze ${life.name}`)
    life.frozenUntilMs = scheduler.nowMs + FROZEN_MS
    this.side.wake(FROZEN_MS)
  }

  #strike(): void {
    for (const { actor, id, label } of [...this.side.scheduler.operations]) {
      if (id <= this.#lastId) continue
      this.#lastId = id
      const times = (this.#seen.get(label) ?? 0) + 1
      this.#seen.set(label, times)
      const index = indexes.find((each) => this.side.lifeOf(each) === actor)
      for (const { kind, label: at, nth } of this.#strikes) {
        if (index !== undefined && at === label && nth === times) this[kind](index)
      }
    }
  }

  view(): SideView {
    const { broker, charges, scheduler } = this.side
    const counts = [...charges].map(([order, count]) => ({ order, count }))
    const queue = broker
      .digest()
      .split(';')
      .filter(Boolean)
      .map((copy) => {
        const [number, , , hiddenMs] = copy.split(',')
        return { order: this.#keys[Number(number)] ?? '', isHidden: Number(hiddenMs) > 0 }
      })
    const waiting = new Set(queue.map(({ order }) => order))
    const lost = counts.filter(({ count, order }) => count === 0 && !waiting.has(order))
    return {
      seconds: (scheduler.nowMs / 1_000).toFixed(1),
      queue,
      workers: indexes.map((index) => this.#worker(index)),
      charges: counts,
      log: this.#log(),
      isOver: this.isOver,
      doubled: counts.filter(({ count }) => count > 1).length,
      lost: this.isOver ? lost.length : 0,
    }
  }

  #worker(index: number): WorkerView {
    const life = this.side.lifeOf(index)
    if (life === undefined) return { state: 'killed', order: undefined, doing: 'starts again' }
    const { scheduler } = this.side
    const order = this.#inHand(life.name)
    const labels = scheduler.waiting(life).map(({ label }) => label)
    const label = labels.find((each) => each !== 'receive>')
    const doing =
      label === undefined ? 'waits for a message' : (doingOf(life.name, label) ?? 'waits')
    if (life.frozenUntilMs > scheduler.nowMs) return { state: 'frozen', order, doing }
    return { state: order === undefined ? 'waits' : 'works', order, doing }
  }

  /** The order of the last message that the worker got and has not settled. */
  #inHand(name: string): string | undefined {
    for (const line of [...(this.side.scheduler.trace ?? [])].reverse()) {
      const [, , actor, what = '', , key] = line.split(' ')
      if (actor !== name) continue
      if (what === 'has') return key
      if (/^(?:ack|defer|abandon)<$/.test(what)) return undefined
    }
    return undefined
  }

  #log(): readonly string[] {
    return tell(this.side.scheduler.trace ?? [])
      .slice(-SHOWN_LINES)
      .map(({ ms, row }) => `${(ms / 1_000).toFixed(1)} s  ${inWords(row)}`)
  }
}

const indexes = Array.from({ length: WORKERS }, (_, index) => index)

const inWords = ({ from, text, to }: Row): string =>
  from === to ? `${to}: ${text}` : `${from} → ${to}: ${text}`

/** A request is on its way, or its answer. */
function doingOf(name: string, label: string): string | undefined {
  const request = label.replace('<', '>')
  const [told] = tell([`0 0ms ${name} ${request}`])
  if (told === undefined) return undefined
  return label.endsWith('<') ? `${told.row.text}: done, waits for the answer` : told.row.text
}

/** The same messages, workers and faults, without the guard and with it. */
export class Game {
  readonly #without: Player
  readonly #with: Player

  constructor({ habit, isStriking, seed }: GameOptions) {
    const { plan, strikes } = drawScenario(seed)
    const struck = isStriking ? strikes : []
    const messages = plan.messages.map(({ event, variant }, number): Message => {
      const key = plan.events[event]?.key ?? ''
      return { number, plan: { event, variant }, key, lane: undefined, body: new Uint8Array() }
    })
    const keys = messages.map(({ key }) => key)
    const choose = (): Choose => chooser(plan, createDice(seed).apart('schedule'))
    const without = new Without(plan, messages, habit)
    this.#without = new Player(without, keys, choose(), struck)
    this.#with = new Player(new With(plan), keys, choose(), struck)
  }

  /** Lets one thing happen in each column; false when there is nothing left. */
  async step(): Promise<boolean> {
    await this.#without.step()
    await this.#with.step()
    return !(this.#without.isOver && this.#with.isOver)
  }

  kill(worker: number): void {
    this.#without.kill(worker)
    this.#with.kill(worker)
  }

  freeze(worker: number): void {
    this.#without.freeze(worker)
    this.#with.freeze(worker)
  }

  view(): { readonly without: SideView; readonly with: SideView } {
    return { without: this.#without.view(), with: this.#with.view() }
  }
}
