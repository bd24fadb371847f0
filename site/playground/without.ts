import {
  createQueue,
  type Message,
  type Received,
  type SimulatedBroker,
} from '../../test-e2e/simulation/brokers/broker.ts'
import type { Plan } from '../../test-e2e/simulation/faults/plan.ts'
import { createDice } from '../../test-e2e/simulation/world/dice.ts'
import { Link } from '../../test-e2e/simulation/world/link.ts'
import { createLife, type Life } from '../../test-e2e/simulation/world/process.ts'
import { type Actor, Scheduler } from '../../test-e2e/simulation/world/scheduler.ts'
import type { Side } from './side.ts'

/** How a handler without a guard goes about it. */
export type Habit = 'acks-after' | 'acks-first' | 'checks-first'

const VISIBILITY_MS = 10_000
const RESTART_MS = 500
const RETRY_MS = 500

interface Worker {
  readonly life: Life
  readonly broker: Link
  readonly database: Link
}

/** Two workers that write each charge by itself, on the broker of the simulation. */
export class Without implements Side {
  readonly scheduler = new Scheduler(true)
  readonly broker: SimulatedBroker
  readonly charges: Map<string, number> = new Map()
  readonly workers: (Worker | undefined)[] = []
  readonly #servers: Actor = { name: 'servers', isAlive: true, frozenUntilMs: 0 }
  readonly #plan: Plan
  readonly #habit: Habit
  /** Orders whose handler has thrown as often as the plan wants it. */
  readonly #failed = new Set<string>()
  readonly #lives: number[] = []

  constructor(plan: Plan, messages: readonly Message[], habit: Habit) {
    this.#plan = plan
    this.#habit = habit
    for (const { key } of messages) this.charges.set(key, 0)
    const clock = {
      nowMs: () => this.scheduler.nowMs,
      wake: (delayMs: number) => {
        this.scheduler.setTimer(this.#servers, () => undefined, delayMs)
      },
      below: () => 0,
    }
    this.broker = createQueue({ kind: 'queue', visibilityMs: VISIBILITY_MS }, messages, clock)
    for (let index = 0; index < plan.processes; index += 1) this.#start(index)
  }

  lifeOf(index: number): Life | undefined {
    return this.workers[index]?.life
  }

  /** What has arrived stays; what is on its way is lost with its connection. */
  kill(index: number): void {
    const worker = this.workers[index]
    if (worker === undefined) return
    this.workers[index] = undefined
    worker.life.isAlive = false
    this.scheduler.drop(worker.life)
    worker.broker.abandon(() => false)
    worker.database.abandon(() => false)
    this.scheduler.setTimer(this.#servers, () => this.#start(index), RESTART_MS)
  }

  wake(ms: number): void {
    this.scheduler.setTimer(this.#servers, () => undefined, ms)
  }

  #start(index: number): void {
    const number = (this.#lives[index] ?? 0) + 1
    this.#lives[index] = number
    const { scheduler } = this
    const life = createLife({
      ...{ scheduler, index, name: `P${index}.${number}`, isPlain: true },
      ...{ dice: createDice(index), onStall: () => undefined },
    })
    const link = (): Link =>
      new Link({
        ...{ scheduler, from: life, servers: this.#servers, isReachable: () => true },
        ...{ lost: (verb) => new Error(verb), executed: () => undefined },
      })
    const worker = { life, broker: link(), database: link() }
    this.workers[index] = worker
    if (number > 1) scheduler.note(`${life.name} open>`)
    void this.#receive(worker)
  }

  async #receive(worker: Worker): Promise<void> {
    const { broker, life } = worker
    for (;;) {
      const received = await broker.call(
        'receive',
        () => this.broker.receive(life, 1),
        () => this.broker.hasFor(life),
      )
      for (const each of received) await this.#handle(worker, each)
    }
  }

  async #handle(worker: Worker, received: Received): Promise<void> {
    const { broker, life } = worker
    const { key, number } = received.message
    this.scheduler.note(`${life.name} has #${number} ${key} plain`)
    const ack = (): Promise<boolean> => broker.call('ack', () => this.broker.ack(received.receipt))
    if (this.#habit === 'acks-first') await ack()
    const isCharged = await this.#charge(worker, received)
    if (this.#habit === 'acks-first') return
    if (isCharged) await ack()
    else await broker.call('defer', () => this.broker.putBack(received.receipt, RETRY_MS))
  }

  /** False if the handler throws, after it has written. */
  async #charge({ database, life }: Worker, { message: { key } }: Received): Promise<boolean> {
    const count = (): number => this.charges.get(key) ?? 0
    const { behaviour } = this.#plan.events.find((event) => event.key === key) ?? {}
    if (this.#habit === 'checks-first' && (await database.call('look', () => count() > 0)))
      return true
    if (behaviour?.kind === 'slow') {
      await new Promise<void>((resolve) => {
        this.scheduler.setTimer(life, resolve, behaviour.ms)
      })
    }
    await database.call('write', () => this.charges.set(key, count() + 1))
    if (behaviour?.kind !== 'flaky' || this.#failed.has(key)) return true
    this.#failed.add(key)
    this.scheduler.note(`${life.name} failed`)
    return false
  }
}
