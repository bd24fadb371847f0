import { isPromise } from '../concurrency/maybe-async.ts'
import type { Delivery } from '../model/delivery.ts'
import { CONFLICT_DELAY_MS, type Outcome } from '../settlement/outcome.ts'
import type { Facts, Processing } from './processing.ts'
import { identifyAll, type ReadContext, type Seen } from './read.ts'

/** What step 1 found in the deliveries of a call, after those that hold several events were split. */
export interface Parts {
  /** In delivery order, and in the order of the items in their delivery. */
  readonly deliveries: readonly Delivery[]
  readonly seen: readonly Seen[]
  /** For each of them, the index of the delivery that it is, or that it is an item of. */
  readonly wholes: readonly number[]
  readonly isItem: readonly boolean[]
}

/** Identifies the items of deliveries that were split, as deliveries of their own. */
export async function identifyItems(
  context: ReadContext,
  deliveries: readonly Delivery[],
  seen: readonly Seen[],
): Promise<Parts> {
  const items = seen.flatMap((each) => (each.kind === 'split' ? each.items : []))
  const read = await identifyAll(context, items)
  let next = 0
  const all: { delivery: Delivery; seen: Seen; whole: number; isItem: boolean }[] = []
  for (const [whole, each] of seen.entries()) {
    if (each.kind !== 'split') {
      all.push({ delivery: deliveries[whole] as Delivery, seen: each, whole, isItem: false })
      continue
    }
    const found = read.slice(next, next + each.items.length)
    next += each.items.length
    for (const [n, delivery] of each.items.entries()) {
      all.push({ delivery, seen: found[n] as Seen, whole, isItem: true })
    }
    warnOfSharedKey(context, found)
  }
  return {
    deliveries: all.map(({ delivery }) => delivery),
    seen: all.map((each) => each.seen),
    wholes: all.map(({ whole }) => whole),
    isItem: all.map((each) => each.isItem),
  }
}

/** Then all items but the first would be duplicates or conflicts. */
function warnOfSharedKey({ options }: ReadContext, items: readonly Seen[]): void {
  const ids = new Set(items.map((each) => (each.kind === 'identified' ? each.event.id : each)))
  if (items.length < 2 || ids.size > 1) return
  options.reportOnce(
    'warn',
    { consumer: options.consumer, items: items.length },
    'all items of a message have the same event key: let `eventKey` read the item, not the message around it',
  )
}

/**
 * Observes the items of deliveries that were split, each when its outcome is known. The delivery is settled when the
 * outcomes of all its items are.
 */
export function observeParts(
  { observe, observeItem }: Pick<Processing, 'observe' | 'observeItem'>,
  { deliveries, isItem, wholes }: Parts,
): { readonly observe: Processing['observe']; readonly idle: () => Promise<unknown> } {
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
