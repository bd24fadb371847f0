import type { GuardSettings } from '../model/guard-port.ts'
import type { StartLimits } from './delivery-buffer.ts'
import type { Delivered } from './ordering.ts'
import type { Startable } from './pending-deliveries.ts'

/**
 * The lanes of which deliveries run. In another call of the guard a later delivery could overtake an earlier one, so a
 * lane has one call at a time.
 */
export class RunningLanes<Each extends Delivered> {
  /** Deliveries that were found to wait for their lane when slots were last filled. */
  blocked = 0
  readonly #settings: Pick<GuardSettings, 'lanesAreUsers'>
  readonly #running = new Map<string, number>()

  constructor(settings: Pick<GuardSettings, 'lanesAreUsers'>) {
    this.#settings = settings
  }

  started(each: Each): void {
    this.#count(each, 1)
  }

  ended(each: Each): void {
    this.#count(each, -1)
  }

  findStartable(pending: readonly Each[], limits: StartLimits): Startable<Each> {
    const groups = new Map<unknown, Each[]>()
    const blocked: Each[] = []
    let size = 0
    for (const each of pending) {
      const lane = this.#laneOf(each)
      const group = groups.get(lane ?? each)
      const needsSlot = group === undefined && groups.size >= limits.groups
      if (size >= limits.deliveries || needsSlot) break
      if (lane !== undefined && this.#running.has(lane)) {
        blocked.push(each)
        continue
      }
      size += 1
      if (group === undefined) groups.set(lane ?? each, [each])
      else group.push(each)
    }
    this.blocked = blocked.length
    return { groups: [...groups.values()], considered: size + blocked.length, blocked }
  }

  /** If the guard finds the lanes itself, all deliveries may share one lane, so only one call at a time may run. */
  #laneOf({ delivery }: Each): string | undefined {
    return this.#settings.lanesAreUsers ? '' : delivery.orderingKey
  }

  #count(each: Each, more: 1 | -1): void {
    const lane = this.#laneOf(each)
    if (lane === undefined) return
    const count = (this.#running.get(lane) ?? 0) + more
    if (count === 0) this.#running.delete(lane)
    else this.#running.set(lane, count)
  }
}
