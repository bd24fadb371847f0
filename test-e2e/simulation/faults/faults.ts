import type { Life } from '../world/process.ts'
import type { World } from '../world/world.ts'
import type { Fault } from './plan.ts'
import { strike } from './strikes.ts'

/** Lets the faults of the plan happen when their time has come. */
export class Faults {
  readonly #world: World
  #left: readonly Fault[]
  /** How often a label of a scheduling point was new, by label. */
  readonly #seen = new Map<string, number>()
  #lastId = 0
  readonly struck: Fault['kind'][] = []

  constructor(world: World) {
    this.#world = world
    this.#left = world.plan.faults
  }

  isOver(): boolean {
    return this.#left.length === 0
  }

  /** Nothing else is to come: what is left happens now, one after the other. */
  hurry(): void {
    const [next, ...rest] = this.#left
    this.#left = rest
    if (next !== undefined) this.#apply(next, undefined)
  }

  /** After each step. */
  strike(): void {
    if (this.#left.length === 0) return
    const { scheduler } = this.#world
    const due = new Map<Fault, Life | undefined>()
    for (const { id, label, actor } of scheduler.operations) {
      if (id <= this.#lastId) continue
      this.#lastId = id
      const times = (this.#seen.get(label) ?? 0) + 1
      this.#seen.set(label, times)
      for (const fault of this.#left) {
        if ('label' in fault.at && fault.at.label === label && fault.at.nth === times) {
          due.set(fault, actor as Life)
        }
      }
    }
    for (const fault of this.#left) {
      if ('step' in fault.at && fault.at.step <= scheduler.steps) due.set(fault, undefined)
    }
    if (due.size === 0) return
    this.#left = this.#left.filter((fault) => !due.has(fault))
    for (const [fault, life] of due) this.#apply(fault, life)
  }

  #apply(fault: Fault, struck: Life | undefined): void {
    const { members, scheduler } = this.#world
    const member =
      members.find((other) => other !== undefined && other.life === struck) ??
      members[fault.process % members.length]
    this.struck.push(fault.kind)
    scheduler.note(`fault ${fault.kind} ${member?.life.name ?? ''}`)
    strike(this.#world, fault, member)
    this.#world.look()
  }
}
