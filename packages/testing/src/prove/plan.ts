import { randomOf } from '../adapter/random.ts'
import { type Point, TRANSACTION_POINTS } from './points.ts'

/** What is random about a proof. The same seed makes the same plan; the timing differs between runs. */
export interface Plan {
  /** In the order in which they are sent, in one batch for each blow and a last one. */
  readonly batches: readonly (readonly number[])[]
  /** One for each batch but the last. */
  readonly blows: readonly Point[]
  readonly sentTwice: ReadonlySet<number>
}

export interface PlanOptions {
  readonly seed: number
  readonly events: number
  readonly kills: number
}

/** One event in ten is sent twice, as by a producer that got no answer. */
const COPIES = 0.1
/** The largest distance between a copy and its original, in messages. */
const APART = 30
/** Each takes as long as the lease of the consumer. */
const MOST_FREEZES = 3
const KILLS_FOR_A_FREEZE = 7

export function planProof({ events, kills, seed }: PlanOptions): Plan {
  const random = randomOf(seed)
  // The first numbers of neighbouring seeds are alike.
  for (let skipped = 0; skipped < 8; skipped += 1) random()
  const numbers = Array.from({ length: events }, (_, index) => index + 1)
  const sentTwice = new Set(numbers.filter(() => random() < COPIES))
  if (sentTwice.size === 0) sentTwice.add(1 + Math.floor(random() * events))
  const placed = numbers.map((event, at) => ({ event, at }))
  const copies = [...sentTwice].map((event) => ({ event, at: event + random() * APART }))
  const messages = [...placed, ...copies].toSorted((a, b) => a.at - b.at).map(({ event }) => event)
  return { batches: cut(messages, kills + 1), blows: blowsOf(kills, random), sentTwice }
}

function blowsOf(kills: number, random: () => number): readonly Point[] {
  const freezes = Math.min(MOST_FREEZES, Math.floor(kills / KILLS_FOR_A_FREEZE))
  const freezeAt = new Set(
    Array.from({ length: freezes }, (_, index) => Math.floor((kills * (index + 0.5)) / freezes)),
  )
  const points: Point[] = []
  const round: Point[] = []
  for (let at = 0; at < kills; at += 1) {
    if (round.length === 0)
      round.push(...shuffled<Point>([...TRANSACTION_POINTS, 'before-ack'], random))
    points.push(freezeAt.has(at) ? 'frozen' : (round.shift() ?? 'before-commit'))
  }
  return points
}

function shuffled<Item>(items: readonly Item[], random: () => number): readonly Item[] {
  return items
    .map((item) => ({ item, at: random() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ item }) => item)
}

/** As many parts, whose lengths differ by one at most. */
function cut<Item>(items: readonly Item[], parts: number): readonly (readonly Item[])[] {
  return Array.from({ length: parts }, (_, part) =>
    items.slice(
      Math.floor((items.length * part) / parts),
      Math.floor((items.length * (part + 1)) / parts),
    ),
  )
}
