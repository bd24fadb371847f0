import { chunks } from '../concurrency/lanes.ts'
import { outcomeWithoutVerdict, storeLoss } from '../handler/run-outcome.ts'
import type { DeliveryPlace } from '../model/fence.ts'
import type { Outcome } from '../settlement/outcome.ts'
import { storeDown } from '../settlement/store-down.ts'
import type { Engine } from '../transaction/engine.ts'
import type { Fence } from '../transaction/partition-fence.ts'
import { type PendingEvent, toPendingEvent } from '../transaction/pending-event.ts'
import { runTransaction } from '../transaction/transaction.ts'
import { hasStoreFailed, type TransactionEnd } from '../transaction/transaction-end.ts'
import { end, failAll, isOver } from './end-event.ts'
import { takePermit } from './permit.ts'
import { LARGEST_BATCH, type Processing } from './processing.ts'
import type { Routed } from './route.ts'

/** An event whose place is its identity. */
interface Placed {
  readonly event: Routed
  readonly place: DeliveryPlace
}

interface Run {
  readonly processing: Processing
  readonly engine: Engine
  readonly fence: Fence
}

/**
 * The strategy `place`, for events whose place is their identity (design.md §14): clean records run in a transaction that
 * moves their partition on, and nothing else is stored of them. The others are exceptions by now: their rows decide, as
 * those of events with keys.
 */
export async function runByPlace(processing: Processing, events: readonly Routed[]): Promise<void> {
  const { engine } = processing.stores
  // Without an inbox, nothing keeps offsets.
  if (engine === undefined) return
  const placed = events.flatMap((event): readonly Placed[] => {
    const { place } = event.member.event.delivery
    return place === undefined ? [] : [{ event, place }]
  })
  const byFence = Map.groupBy(placed, ({ place }) => place.fence as Fence)
  const running = [...byFence].map(async ([fence, ofFence]) => {
    try {
      await fence.inTurn(() => runOfFence({ processing, engine, fence }, ofFence))
    } catch (error) {
      failAll(processing, eventsOf(ofFence), error)
    }
  })
  await Promise.all(running)
}

const eventsOf = (placed: readonly Placed[]): readonly Routed[] => placed.map(({ event }) => event)

async function runOfFence(run: Run, placed: readonly Placed[]): Promise<void> {
  const { fence, processing } = run
  // Records of one lane may come together, and a partition moves on in order.
  const open = placed
    .filter(({ event }) => !isOver(processing, event))
    .toSorted((one, two) => one.place.offset - two.place.offset)
  if (fence.isLost) return lose(run, open)
  const { byPlace, byRow } = judged(run, open)
  // A suspect is counted before it runs. A later event of its lane must not overtake it.
  const lanes = new Set(byRow.flatMap(({ event: { member } }) => member.lane ?? []))
  const isTroubled = ({ event: { member } }: Placed): boolean =>
    member.suspect || (member.lane !== undefined && lanes.has(member.lane))
  let areBehind = byPlace.some(isTroubled)
  for (const part of areBehind ? [byPlace] : chunks(byPlace, LARGEST_BATCH)) {
    const left = part.filter(({ event }) => !isOver(processing, event))
    if (left.length === 0) continue
    // Behind records that run later, by their rows, no record of their lanes may run.
    const end = areBehind ? await except(run, left) : await runClean(run, left)
    areBehind ||= end === 'by-row'
  }
}

/** Whether some of the events are left to their rows. */
type PlaceEnd = 'ended' | 'by-row'

/** Ends what its place says is done. */
function judged(
  { fence, processing }: Run,
  placed: readonly Placed[],
): { readonly byPlace: readonly Placed[]; readonly byRow: readonly Placed[] } {
  const byPlace: Placed[] = []
  const byRow: Placed[] = []
  for (const one of placed) {
    const regime = fence.regimeOf(one.place.offset)
    if (regime === 'place') byPlace.push(one)
    else if (regime === 'row') byRow.push(one)
    else void end(processing, one.event, { kind: 'duplicate' })
  }
  return { byPlace, byRow }
}

/** Makes exceptions of the events, unless another owner has them. */
async function except(run: Run, placed: readonly Placed[]): Promise<PlaceEnd> {
  const { engine, fence } = run
  const open = placed.filter(({ event }) => event.isOver !== true)
  if (open.length === 0) return 'ended'
  const stored = await engine.session.offsets?.move(fence.excepting(placesOf(open)))
  engine.breaker.succeeded()
  fence.adopt(stored)
  if (fence.isLost) {
    lose(run, open)
    return 'ended'
  }
  const { byPlace, byRow } = judged(run, open)
  // Nothing was moved, though nobody else has claimed the partition: it was moved by hand.
  lose(run, byPlace)
  return byRow.length > 0 ? 'by-row' : 'ended'
}

const placesOf = (placed: readonly Placed[]): readonly DeliveryPlace[] =>
  placed.map(({ place }) => place)

function lose(run: Run, placed: readonly Placed[]): void {
  if (placed.length > 0) run.fence.isLost = true
  endAll(run, placed, { kind: 'abandoned', reason: 'lease-lost' })
}

async function runClean(run: Run, placed: readonly Placed[]): Promise<PlaceEnd> {
  const { engine, fence, processing } = run
  const pending = placed.map(({ event }) => toPendingEvent(event.member))
  const permit = await takePermit(processing)
  if ('kind' in permit) {
    endAll(run, placed, permit)
    return 'ended'
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
  return 'ended'
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
): Promise<PlaceEnd> {
  const { engine } = run
  if (ended.kind === 'held') {
    const delayMs = engine.options.claimWaitMs
    endAll(run, placed, { kind: 'in-progress', delayMs, cause: 'held-by-row' })
    return 'ended'
  }
  if (ended.kind !== 'failed') return except(run, placed)
  const { failure, transaction } = ended
  await transaction.rollback()
  switch (failure.kind) {
    case 'drained':
    case 'not-replicated':
      endAll(run, placed, outcomeWithoutVerdict(failure))
      return 'ended'
    case 'store':
      endAll(run, placed, storeDown(storeLoss(engine.options, failure.error)))
      return 'ended'
    default:
      return except(run, placed)
  }
}
