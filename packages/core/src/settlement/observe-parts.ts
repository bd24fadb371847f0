import { isPromise } from '../concurrency/maybe-async.ts'
import type { Delivery } from '../model/delivery.ts'
import type { Facts, Observe, ObserveItem } from './observe.ts'
import { CONFLICT_DELAY_MS, type Outcome } from './outcome.ts'

interface Observers {
  readonly observe: Observe
  /** Undefined where no delivery is split. */
  readonly observeItem?: ObserveItem | undefined
}

/** Deliveries, of which some are items of others. */
interface SplitDeliveries {
  readonly deliveries: readonly Delivery[]
  /** For each of them, the index of the delivery that it is, or that it is an item of. */
  readonly wholes: readonly number[]
  readonly isItem: readonly boolean[]
}

/**
 * Observes the items of deliveries that were split, each when its outcome is known. The delivery is settled when the
 * outcomes of all its items are.
 */
export function observeParts(
  { observe, observeItem }: Observers,
  { deliveries, isItem, wholes }: SplitDeliveries,
): { readonly observe: Observe; readonly idle: () => Promise<unknown> } {
  const left = new Map<number, number>()
  for (const whole of wholes) left.set(whole, (left.get(whole) ?? 0) + 1)
  const decisive = new Map<number, Outcome>()
  const ending: Promise<void>[] = []
  const end = (whole: number, outcome: Outcome): void => {
    const before = decisive.get(whole)
    const isFirst = before === undefined || isBefore(rankOf(outcome), rankOf(before))
    if (isFirst) decisive.set(whole, outcome)
    const open = (left.get(whole) ?? 1) - 1
    left.set(whole, open)
    const last = decisive.get(whole)
    if (open === 0 && last !== undefined) observe(whole, wholeOutcome(last), { isReported: true })
  }
  return {
    observe: (part: number, outcome: Outcome, facts: Facts) => {
      const [delivery, whole] = [deliveries[part], wholes[part]]
      if (delivery === undefined || whole === undefined) throw new Error('There is no such item.')
      if (isItem[part] !== true || observeItem === undefined) {
        observe(whole, outcome, facts)
        return
      }
      const ended = observeItem(delivery, outcome, facts)
      if (!isPromise(ended)) end(whole, ended)
      else ending.push(ended.then((last) => end(whole, last)))
    },
    idle: () => Promise.all(ending),
  }
}

type Rank = readonly [kind: number, delayMs: number]

const isBefore = (a: Rank, b: Rank): boolean => a[0] < b[0] || (a[0] === b[0] && a[1] < b[1])

const RANK = {
  abandoned: 0,
  // The earliest of these decides.
  'in-progress': 1,
  'not-due': 1,
  deferred: 1,
  failed: 1,
  'after-commit-failed': 1,
  'not-stored': 1,
  'store-down': 1,
  // Not recorded: without an inbox, only the dead-letter place of the broker can keep it, and that takes messages.
  dead: 2,
  parked: 3,
  processed: 4,
  unguarded: 5,
  duplicate: 6,
  conflict: 7,
  skipped: 8,
} as const satisfies Readonly<Record<Outcome['kind'], number>>

/** Which outcome of an item decides about the delivery: the lowest. */
function rankOf(outcome: Outcome): Rank {
  const delayMs = 'delayMs' in outcome ? outcome.delayMs : 0
  if (outcome.kind === 'conflict' && outcome.policy === 'throw') return [1, CONFLICT_DELAY_MS]
  if (outcome.kind === 'dead' && outcome.ref !== undefined) {
    return [outcome.repeated === true ? RANK.duplicate : RANK.processed, 0]
  }
  return [RANK[outcome.kind], delayMs]
}

/** The delivery has no result of its own, so the results of its items are left out. */
function wholeOutcome(outcome: Outcome): Outcome {
  switch (outcome.kind) {
    case 'dead':
      if (outcome.ref === undefined) return outcome
      return outcome.repeated === true
        ? { kind: 'duplicate' }
        : { kind: 'processed', attempt: outcome.attempt }
    case 'processed':
      return { kind: 'processed', attempt: outcome.attempt }
    case 'duplicate':
    case 'unguarded':
      return { kind: outcome.kind }
    default:
      return outcome
  }
}
