import {
  createBatchGuard,
  createGuard,
  type GuardEvent,
  type Inbox,
  type LeaseStore,
} from '@onceward/core'
import { z } from 'zod'
import { meterObserver, traced } from './index.ts'

interface Tx {
  readonly query: (text: string) => Promise<void>
}
declare const inbox: Inbox<Tx>
declare const leases: LeaseStore
const OrderPlaced = z.object({ orderId: z.string(), cents: z.int() })

// Payload and transaction are inferred through the wrapper.
createGuard(
  { consumer: 'a', inbox, schema: OrderPlaced, observe: meterObserver() },
  traced(async (event, { tx, signal }) => {
    const cents: number = event.payload.cents
    signal.throwIfAborted()
    await tx.query(`${event.key} ${cents}`)
    // @ts-expect-error the schema has no such field
    event.payload.nothing
    // @ts-expect-error the transaction has no such method
    tx.nothing
  }),
)

createGuard(
  {
    consumer: 'a',
    inbox,
    decode: () => ({ id: 1 }),
    eventKey: ({ payload }) => String(payload.id),
  },
  traced(({ payload }) => ({ answer: payload.id })),
)

createGuard(
  { consumer: 'a', inbox },
  traced((event: GuardEvent<{ readonly own: string }>) => {
    event.payload.own.trim()
  }),
)

createBatchGuard(
  { consumer: 'a', inbox, schema: OrderPlaced },
  traced(async (events, { tx }) => {
    for (const { payload } of events) await tx.query(payload.orderId)
    // @ts-expect-error a batch is a list
    events.payload
  }),
)

createGuard(
  { consumer: 'a', inbox },
  traced(async (_, { tx }) => tx.query('select 1')),
)

// Without a schema the payload is unknown, and all the rest has its type.
createGuard(
  { consumer: 'a', inbox },
  traced(async (event, { tx, logger }) => {
    logger.info({ payload: event.payload }, 'seen')
    await tx.query(event.key)
    // @ts-expect-error nothing is known about the payload
    event.payload.orderId
  }),
)

createBatchGuard(
  { consumer: 'a', inbox },
  traced(async (events, { tx }) => {
    for (const { key } of events) await tx.query(key)
  }),
)

createGuard(
  { consumer: 'a', leases, onTakeover: 'retry' },
  traced(async (event, { deadlineAt, logger }) => {
    logger.info({ deadlineAt }, event.key)
  }),
)

// A handler that takes nothing fits every guard.
const noParameters = traced(async () => {})
createGuard({ consumer: 'a', inbox }, noParameters)
createGuard(
  { consumer: 'a', inbox },
  traced(async () => {}),
)
createBatchGuard({ consumer: 'a', inbox }, noParameters)
