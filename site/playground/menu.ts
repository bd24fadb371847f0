import type { Habit } from './without.ts'

interface Choice<Name extends string = string> {
  readonly name: Name
  readonly title: string
}

/** Handlers without a guard, as they are written. */
export const HABITS: readonly Choice<Habit>[] = [
  { name: 'acks-after', title: 'writes, then acks' },
  { name: 'acks-first', title: 'acks, then writes' },
  { name: 'checks-first', title: 'checks, writes, then acks' },
]

export interface Bug extends Choice {
  /** A seed that shows it. */
  readonly seed: number
  readonly says: string
}

/** Bugs of other systems that `test-e2e/simulation/faults/mutants.ts` puts back into the core. */
export const BUGS: readonly Bug[] = [
  {
    name: 'T2-done-is-accepted-again',
    title: 'trap T2: a copy of a done event is new',
    seed: 1,
    says: 'The state is part of the key, so the row of a done event does not stop its copy. Charges double.',
  },
  {
    name: 'T7-two-at-once',
    title: 'trap T7: two copies run at once',
    seed: 1,
    says: 'Nobody waits for the row that another transaction has inserted. Charges double.',
  },
  {
    name: 'T4-mark-before-effect',
    title: 'trap T4: marked before the effect',
    seed: 1,
    says: 'The row is committed before the handler runs. A worker dies in between: charges are lost.',
  },
  {
    name: 'T3-failed-is-remembered-as-done',
    title: 'trap T3: a failure counts as done',
    seed: 4,
    says: 'The handler throws, and its redelivery is taken for a duplicate. Charges are lost.',
  },
]

/** A seed that shows all that the first column does wrong. */
export const FIRST_SEED = 7
