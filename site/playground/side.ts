import type { SimulatedBroker } from '../../test-e2e/simulation/brokers/broker.ts'
import type { Life } from '../../test-e2e/simulation/world/process.ts'
import type { Scheduler } from '../../test-e2e/simulation/world/scheduler.ts'

/** One column: the same messages, workers and faults, with the guard or without it. */
export interface Side {
  readonly scheduler: Scheduler
  readonly broker: SimulatedBroker
  /** How often each order was charged. */
  readonly charges: ReadonlyMap<string, number>
  /** Undefined between two lives of a worker. */
  lifeOf(index: number): Life | undefined
  kill(index: number): void
  /** Time has somewhere to go. */
  wake(ms: number): void
}
