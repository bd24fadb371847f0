import type { Plan } from '../../test-e2e/simulation/faults/plan.ts'
import type { Life } from '../../test-e2e/simulation/world/process.ts'
import type { Scheduler } from '../../test-e2e/simulation/world/scheduler.ts'
import { World } from '../../test-e2e/simulation/world/world.ts'
import type { Side } from './side.ts'

/** The same workers behind the real core, in the world that `npm run simulate` plays in. */
export class With implements Side {
  readonly #world: World

  constructor(plan: Plan) {
    this.#world = new World(plan, true)
  }

  get scheduler(): Scheduler {
    return this.#world.scheduler
  }

  get broker(): World['broker'] {
    return this.#world.broker
  }

  get charges(): ReadonlyMap<string, number> {
    const { audit, database } = this.#world
    return new Map(
      [...audit.cases.values()].map(({ id, key }) => [key, database.history.of(id).effects.length]),
    )
  }

  lifeOf(index: number): Life | undefined {
    return this.#world.members[index]?.life
  }

  kill(index: number): void {
    const life = this.lifeOf(index)
    if (life === undefined) return
    this.#world.audit.disturbed(life)
    this.#world.crash(life, false)
  }

  wake(ms: number): void {
    this.#world.wake(ms)
  }
}
