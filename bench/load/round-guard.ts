import {
  createGuard,
  type Delivery,
  type Guard,
  type GuardEvent,
  type LeaseStore,
} from '@onceward/core'
import { pgInbox } from '@onceward/postgres/pg'
import { type Observer, QUIET } from '../runner/observer.ts'
import { CONCURRENCY, inLanes } from '../runner/rounds.ts'
import { type Order, toDelivery, write } from './effects.ts'

/** Not timed: a pool closes connections that are idle for ten seconds, as they are while other contestants run. */
const WARM_UP = 4 * CONCURRENCY

/** Runs some events before a round is timed, so that connections are open and the code is compiled. */
export async function warm(work: (delivery: Delivery) => Promise<unknown>): Promise<void> {
  await inLanes(Array.from({ length: WARM_UP }, toDelivery), CONCURRENCY, async (delivery) => {
    await work(delivery)
  })
}

export interface RoundGuardOptions {
  readonly connectionString: string
  readonly consumer?: string
  readonly transaction?: 'each' | 'batch'
  readonly leases?: LeaseStore
  /** Default: the header. */
  readonly eventKey?: (event: { readonly payload: unknown }) => string
  /** Called for the events of the round, not for those that warm up. */
  readonly observe?: Observer
}

/** The guard of one round, on a pool of its own that is warm. */
export async function roundGuard(options: RoundGuardOptions): Promise<Guard> {
  const { connectionString, observe = () => undefined, ...others } = options
  let isWarm = false
  const guard = createGuard(
    {
      ...{ consumer: 'bench', inbox: pgInbox({ connectionString }), concurrency: CONCURRENCY },
      ...{ logger: QUIET, observe: (record) => (isWarm ? observe(record) : undefined) },
      ...others,
    },
    ({ payload }: GuardEvent<Order>, { tx }) => write(tx, payload),
  )
  await warm((delivery) => guard.process(delivery))
  isWarm = true
  return guard
}

/** One event in a loop of one's own. Rejects if it was not processed: then something else was measured. */
export async function processed(guard: Guard, delivery: Delivery): Promise<void> {
  const settlement = await guard.process(delivery)
  if (settlement.kind === 'ack') return
  throw new Error(`expected an ack, got ${JSON.stringify(settlement)}`)
}
