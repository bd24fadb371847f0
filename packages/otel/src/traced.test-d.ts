import { createBatchGuard, createGuard, type GuardEvent, type Inbox } from '@onceward/core'
import { z } from 'zod'
import { meterObserver, traced } from './index.ts'

interface Tx {
  readonly query: (text: string) => Promise<void>
}
declare const inbox: Inbox<Tx>
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
  // @ts-expect-error what a handler returns is stored as JSON
  traced(() => 1n),
)
