import type { Processing } from '../processing.ts'
import type { Received } from '../receive.ts'
import { type Route, routeOf, type Strategy } from '../route.ts'
import { runByLease } from './lease.ts'
import { runWithoutKeys } from './none.ts'
import { parkEvents } from './park.ts'
import { runByPlace } from './place.ts'
import { runByRow } from './row.ts'
import { waitForOthers } from './wait.ts'

const STRATEGIES = {
  done: async () => undefined,
  place: runByPlace,
  row: runByRow,
  lease: runByLease,
  none: runWithoutKeys,
  park: parkEvents,
  wait: waitAndRun,
} satisfies Readonly<Record<Route, Strategy>>

export const strategyOf = (processing: Processing, event: Received): Strategy =>
  STRATEGIES[routeOf(processing, event)]

async function waitAndRun(processing: Processing, events: readonly Received[]): Promise<void> {
  for (const event of events) {
    await waitForOthers(processing, event)
    await strategyOf(processing, event)(processing, [event])
  }
}
