import { inTurns, toLanes, WAITING_LANES } from '../concurrency/lanes.ts'
import { inHandPerSlot } from '../options/resolved-options.ts'
import { failAll, isOver } from './end-event.ts'
import { runByLease } from './lease.ts'
import { runWithoutKeys } from './none.ts'
import { parkEvents } from './park.ts'
import { inGroups } from './permit.ts'
import { runByPlace } from './place.ts'
import type { Processing } from './processing.ts'
import { type Route, type Routed, routeOf, type Strategy } from './route.ts'
import { runByRow } from './row.ts'
import { waitForOthers } from './wait.ts'

type Lane = readonly Routed[]

/** Step 3 for several events: together where they may share a transaction, otherwise lane by lane. */
export function runEvents(processing: Processing, events: readonly Routed[]): Promise<unknown> {
  // Most calls: all of their events run together, in the order in which they came.
  if (isSharing(processing) && readyHead(processing, events) === events) {
    return runTogether(processing, events)
  }
  // The second payload of a key may be the right one, so nothing of its lane overtakes it.
  const isConflicting = events.some(({ isOtherPayload }) => isOtherPayload)
  const eventOf = isConflicting ? ({ member }: Routed) => member.event.id : undefined
  const lanes = toLanes(events, ({ member }) => member, eventOf)
  if (!isSharing(processing)) return runLanes(processing, lanes)
  const heads = lanes.map((lane) => readyHead(processing, lane))
  const together = heads.flat().toSorted((a, b) => a.member.index - b.member.index)
  const rests = lanes.map((lane, n) => lane.slice(heads[n]?.length))
  const ready = rests.filter((_, n) => heads[n]?.length !== 0)
  const others = rests.filter((_, n) => heads[n]?.length === 0)
  const shared = runTogether(processing, together).then(() => runLanes(processing, ready))
  return Promise.all([shared, runLanes(processing, others)])
}

/** Runs lanes side by side. One that waits for another run takes no turn of those that are ready. */
function runLanes(processing: Processing, lanes: readonly Lane[]): Promise<unknown> {
  const { options, signals, stores } = processing
  const width = stores.slots.size * inHandPerSlot(options)
  const stop = signals.whenStopping
  const isLaneWaiting = (lane: Lane): boolean => lane.some((event) => isWaiting(processing, event))
  const waiting = lanes.filter(isLaneWaiting)
  const ready = waiting.length === 0 ? lanes : lanes.filter((lane) => !isLaneWaiting(lane))
  return Promise.all([
    inTurns(ready, { width, stop }, (lane) => runLane(processing, lane)),
    inTurns(waiting, { width: WAITING_LANES, stop }, (lane) => runLane(processing, lane)),
  ])
}

async function runLane(processing: Processing, lane: Lane): Promise<void> {
  for (let left = lane; left.length > 0; ) {
    const head = isSharing(processing) ? readyHead(processing, left) : []
    const part = head.length > 0 ? head : left.slice(0, 1)
    await runTogether(processing, part)
    left = left.slice(part.length)
  }
}

/** Whether events run together: in one transaction, or they are only stored. */
function isSharing({ isParking, options }: Processing): boolean {
  return isParking || options.transaction === 'batch'
}

/** The first events of a lane, up to one that must wait or has no key. */
function readyHead(processing: Processing, lane: Lane): Lane {
  const end = lane.findIndex((event) => !event.hasKey || isWaiting(processing, event))
  return end === -1 ? lane : lane.slice(0, end)
}

/** Whether the event waits for another run of it, or, if events are only stored, for its first payload. */
function isWaiting(processing: Processing, event: Routed): boolean {
  const route = routeOf(processing, event)
  return route === 'park' ? event.isOtherPayload === true : route === 'wait'
}

/** Runs events that may start together: they have one route. */
async function runTogether(processing: Processing, events: readonly Routed[]): Promise<void> {
  const open = events.filter((event) => !isOver(processing, event))
  const [first] = open
  if (first === undefined) return
  try {
    await strategyOf(processing, first)(processing, open)
  } catch (error) {
    failAll(processing, open, error)
  }
  if (processing.options.afterCommit !== undefined) await afterCommits(processing, open)
}

/** The next event of a lane starts after `afterCommit` of the one before it, and no more calls run than handlers. */
async function afterCommits({ settling }: Processing, events: readonly Routed[]): Promise<void> {
  await Promise.all(events.map(({ member }) => settling.get(member.event.id)))
}

const STRATEGIES = {
  done: async () => undefined,
  place: runByPlace,
  row: runByRow,
  lease: runByLease,
  none: runWithoutKeys,
  park: parkEvents,
  wait: waitAndRun,
} satisfies Readonly<Record<Route, Strategy>>

export const strategyOf = (processing: Processing, event: Routed): Strategy => {
  const route = routeOf(processing, event)
  const strategy: Strategy = STRATEGIES[route]
  const isRun = route === 'row' || route === 'lease' || route === 'none'
  return isRun && processing.stores.groups !== undefined ? inGroups(strategy) : strategy
}

async function waitAndRun(processing: Processing, events: readonly Routed[]): Promise<void> {
  for (const event of events) {
    await waitForOthers(processing, event)
    await strategyOf(processing, event)(processing, [event])
  }
}
