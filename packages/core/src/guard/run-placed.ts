import { chunks } from '../concurrency/lanes.ts'
import type { DeliveryPlace } from '../model/fence.ts'
import type { Outcome } from '../settlement/outcome.ts'
import type { Engine } from '../transaction/engine.ts'
import type { Fence } from '../transaction/partition-fence.ts'
import { type PendingEvent, toPendingEvent } from '../transaction/pending-event.ts'
import { outcomeWithoutVerdict, storeLoss } from '../transaction/run-outcome.ts'
import { runTransaction } from '../transaction/transaction.ts'
import { hasStoreFailed, type TransactionEnd } from '../transaction/transaction-end.ts'
import { end, failAll, isOver } from './end-event.ts'
import { LARGEST_BATCH, type Processing, storeDown } from './processing.ts'
import type { Received } from './receive.ts'
import { takePermit } from './run-unclaimed.ts'

/** An event whose place is its identity. */
interface Placed {
  readonly event: Received
  readonly place: DeliveryPlace
}

interface Run {
  readonly processing: Processing
  readonly engine: Engine
  readonly fence: Fence
}

export const isPlaced = ({ member }: Received): boolean => member.event.delivery.place !== undefined

/**
 * Step 3 for events whose place is their identity (design.md §14): clean records run in a transaction that moves their
 * partition on, and nothing else is stored of them. Answers the other events, in order: they are exceptions by now, so
 * their rows decide, as those of events with keys.
 */
export async function runPlaced(
  processing: Processing,
  events: readonly Received[],
): Promise<readonly Received[]> {
  const { engine } = processing.stores
  const placed = events.flatMap((event): readonly Placed[] => {
    const { place } = event.member.event.delivery
    return place === undefined ? [] : [{ event, place }]
  })
  if (engine === undefined || placed.length === 0) return events
  const byFence = Map.groupBy(placed, ({ place }) => place.fence as Fence)
  const byRow = new Set(events)
  for (const { event } of placed) byRow.delete(event)
  const running = [...byFence].map(async ([fence, ofFence]) => {
    const run = { processing, engine, fence }
    const work = async (): Promise<void> => {
      for (const event of await runOfFence(run, ofFence)) byRow.add(event)
    }
    try {
      await fence.inTurn(work)
    } catch (error) {
      failAll(processing, eventsOf(ofFence), error)
    }
  })
  await Promise.all(running)
  return events.filter((event) => byRow.has(event))
}

const eventsOf = (placed: readonly Placed[]): readonly Received[] =>
  placed.map(({ event }) => event)

async function runOfFence(run: Run, placed: readonly Placed[]): Promise<readonly Received[]> {
  const { fence, processing } = run
  // Records of one lane may come together, and a partition moves on in order.
  const open = placed
    .filter(({ event }) => !isOver(processing, event))
    .toSorted((one, two) => one.place.offset - two.place.offset)
  if (fence.isLost) return lost(run, open)
  const { byPlace, byRow } = judged(run, open)
  // A suspect is counted before it runs. A later event of its lane must not overtake it.
  const lanes = new Set(byRow.flatMap(({ member: { lane } }) => lane ?? []))
  const isTroubled = ({ event: { member } }: Placed): boolean =>
    member.suspect || (member.lane !== undefined && lanes.has(member.lane))
  if (byPlace.some(isTroubled)) return [...byRow, ...(await except(run, byPlace))]
  const before = byRow.length
  for (const part of chunks(byPlace, LARGEST_BATCH)) {
    const left = part.filter(({ event }) => !isOver(processing, event))
    if (left.length === 0) continue
    // Behind records that run later, by their rows, no record of their lanes may run.
    const isBehind = byRow.length > before
    byRow.push(...(await (isBehind ? except(run, left) : runClean(run, left))))
  }
  return byRow
}

/** Ends what its place says is done. */
function judged(
  { fence, processing }: Run,
  placed: readonly Placed[],
): { readonly byPlace: Placed[]; readonly byRow: Received[] } {
  const byPlace: Placed[] = []
  const byRow: Received[] = []
  for (const one of placed) {
    const regime = fence.regimeOf(one.place.offset)
    if (regime === 'place') byPlace.push(one)
    else if (regime === 'row') byRow.push(one.event)
    else void end(processing, one.event, { kind: 'duplicate' })
  }
  return { byPlace, byRow }
}

/** Makes exceptions of the events, unless another owner has them. */
async function except(run: Run, placed: readonly Placed[]): Promise<readonly Received[]> {
  const { engine, fence } = run
  const open = placed.filter(({ event }) => event.isOver !== true)
  if (open.length === 0) return []
  const stored = await engine.session.offsets?.move(fence.excepting(placesOf(open)))
  engine.breaker.succeeded()
  fence.adopt(stored)
  if (fence.isLost) return lost(run, open)
  const { byPlace, byRow } = judged(run, open)
  // Nothing was moved, though nobody else has claimed the partition: it was moved by hand.
  return [...byRow, ...lost(run, byPlace)]
}

const placesOf = (placed: readonly Placed[]): readonly DeliveryPlace[] =>
  placed.map(({ place }) => place)

function lost({ fence, processing }: Run, placed: readonly Placed[]): readonly Received[] {
  if (placed.length > 0) fence.isLost = true
  for (const { event } of placed) {
    if (!isOver(processing, event)) {
      void end(processing, event, { kind: 'abandoned', reason: 'lease-lost' })
    }
  }
  return []
}

async function runClean(run: Run, placed: readonly Placed[]): Promise<readonly Received[]> {
  const { engine, fence, processing } = run
  const pending = placed.map(({ event }) => toPendingEvent(event.member))
  const permit = await takePermit(processing)
  if ('kind' in permit) {
    endAll(run, placed, permit)
    return []
  }
  const move = fence.passing(placesOf(placed))
  let ended: TransactionEnd
  try {
    const { claimWaitMs: waitMs } = engine.options
    const { signals } = processing
    ended = await runTransaction(engine, {
      ...{ members: pending, waitMs, signals, hold: permit.hold },
      claim: { kind: 'move', move, events: pending.map(({ member }) => member.event) },
    })
  } finally {
    permit.release()
  }
  if (!hasStoreFailed(ended)) engine.breaker.succeeded()
  if (ended.kind !== 'committed') return afterTrouble(run, placed, ended)
  fence.moved(move)
  endProcessed(run, placed, pending)
  return []
}

function endProcessed(
  { processing }: Run,
  placed: readonly Placed[],
  pending: readonly PendingEvent[],
): void {
  for (const [index, { event }] of placed.entries()) {
    void end(processing, event, { kind: 'processed', attempt: 1 }, pending[index]?.handlerMs)
  }
}

function endAll({ processing }: Run, placed: readonly Placed[], outcome: Outcome): void {
  for (const { event } of placed)
    if (!isOver(processing, event)) void end(processing, event, outcome)
}

/**
 * Nothing is committed, or that is unknown. Verdicts, attempts and parts of the batch are the rows' work; the move to them
 * also tells what a COMMIT without an answer has done.
 */
async function afterTrouble(
  run: Run,
  placed: readonly Placed[],
  ended: Exclude<TransactionEnd, { kind: 'committed' }>,
): Promise<readonly Received[]> {
  const { engine } = run
  if (ended.kind === 'held') {
    const delayMs = engine.options.claimWaitMs
    endAll(run, placed, { kind: 'in-progress', delayMs, cause: 'held-by-row' })
    return []
  }
  if (ended.kind !== 'failed') return except(run, placed)
  const { failure, transaction } = ended
  await transaction.rollback()
  switch (failure.kind) {
    case 'drained':
    case 'not-replicated':
      endAll(run, placed, outcomeWithoutVerdict(failure))
      return []
    case 'store':
      endAll(run, placed, storeDown(storeLoss(engine.options, failure.error)))
      return []
    default:
      return except(run, placed)
  }
}
