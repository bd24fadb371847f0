import { chunks } from '../concurrency/lanes.ts'
import type { InFlightEvent } from '../model/in-flight-event.ts'
import { runBatch } from '../transaction/batch.ts'
import type { BatchRun } from '../transaction/batch-state.ts'
import { riderOf } from '../transaction/chain.ts'
import { end, isOver } from './end-event.ts'
import { takeSlot } from './permit.ts'
import { LARGEST_BATCH, type Processing } from './processing.ts'
import type { Routed } from './route.ts'

/** The strategy `row`: the rows of the events, their handlers and the commit share a transaction. */
export function runByRow(processing: Processing, events: readonly Routed[]): Promise<void> {
  const { lanes, signals, stores } = processing
  const { engine } = stores
  if (engine === undefined) throw new Error('Only events of an inbox have rows.')
  if (events.length > LARGEST_BATCH) return runInBatches(processing, events)
  const byMember = new Map(events.map((event) => [event.member, event]))
  const run: BatchRun = {
    ...{ engine, lanes, signals },
    onOutcome: (member, outcome, handlerMs) =>
      void end(processing, byMember.get(member) as Routed, outcome, handlerMs),
  }
  const members = events.map(({ member }) => member)
  const slot = engine.slots.tryAcquire()
  return slot === undefined ? waitForSlot(run, members) : runBatch(run, members, { slot })
}

async function runInBatches(processing: Processing, events: readonly Routed[]): Promise<void> {
  for (const batch of chunks(events, LARGEST_BATCH)) {
    const open = batch.filter((event) => !isOver(processing, event))
    if (open.length > 0) await runByRow(processing, open)
  }
}

function waitForSlot(run: BatchRun, members: readonly InFlightEvent[]): Promise<void> {
  const { engine, onOutcome, signals } = run
  const { runtime } = engine.options
  const rider = riderOf(run, members)
  return takeSlot({ slots: engine.slots, runtime, signals, ticket: rider }).then((slot) => {
    if (typeof slot === 'function') return runBatch(run, members, { slot, aboard: rider?.aboard })
    for (const member of members) onOutcome(member, slot, undefined)
    return undefined
  })
}
