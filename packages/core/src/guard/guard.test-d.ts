import { expectTypeOf } from 'vitest'
import { z } from 'zod'
import { once } from '../edge/once.ts'
import { memoryInbox } from '../memory/index.ts'
import { header } from '../messages/resolvers.ts'
import type { Delivery, GuardEvent } from '../model/delivery.ts'
import type { Guard } from '../model/guard-port.ts'
import type { Inbox } from '../model/inbox.ts'
import type { LeaseStore } from '../model/lease-store.ts'
import type { Settlement } from '../model/settlement.ts'
import type { CommonOptions, Handler, HandlerContext, Resolver } from '../options/options.ts'
import { createBatchGuard, createGuard } from './guard.ts'

interface Tx {
  query(text: string): Promise<{ rows: object[]; rowCount: bigint; command(): void }>
}
declare const inbox: Inbox<Tx>
declare const leases: LeaseStore
declare const delivery: Delivery
const schema = z.object({ orderId: z.string(), cents: z.number().default(0) })

// The schema types the payload, the inbox the transaction.
const guard = createGuard({ consumer: 'billing', inbox, schema }, async (event, { tx, signal }) => {
  expectTypeOf(event.payload).toEqualTypeOf<{ orderId: string; cents: number }>()
  expectTypeOf(event.attempt).toEqualTypeOf<number>()
  expectTypeOf(tx).toEqualTypeOf<Tx>()
  expectTypeOf(signal).toEqualTypeOf<AbortSignal>()
  await tx.query('select 1')
})
expectTypeOf(guard).toExtend<Guard>()
expectTypeOf(guard.process(delivery)).toEqualTypeOf<Promise<Settlement>>()
expectTypeOf(guard.processBatch([delivery])).toEqualTypeOf<Promise<readonly Settlement[]>>()

// Resolvers see what the schema made; skip what decode made.
createGuard(
  {
    consumer: 'billing',
    inbox,
    schema,
    eventKey: ({ payload }) => payload.orderId,
    skip: ({ payload }) => payload === null,
  },
  () => undefined,
)

// Without a schema: unknown, or what decode returns, or what the handler says.
createGuard({ consumer: 'billing', inbox }, (event) => {
  expectTypeOf(event.payload).toEqualTypeOf<unknown>()
})
createGuard({ consumer: 'billing', inbox, decode: () => ({ n: 5 }) }, (event) => {
  expectTypeOf(event.payload).toEqualTypeOf<{ n: number }>()
})
createGuard({ consumer: 'billing', inbox }, (event: GuardEvent<{ orderId: string }>) => {
  expectTypeOf(event.payload.orderId).toEqualTypeOf<string>()
})

// A factory takes any inbox of the transaction's type, for tests too.
const createBilling = (store: Inbox<Tx>): Guard =>
  createGuard({ consumer: 'billing', inbox: store }, (_, { tx }) => {
    expectTypeOf(tx).toEqualTypeOf<Tx>()
  })
createBilling(memoryInbox<Tx>({} as Tx))

// A handler can be wrapped without losing its types.
const traced =
  <Payload, T>(handler: Handler<Payload, T>): Handler<Payload, T> =>
  (event, context) =>
    handler(event, context)
createGuard(
  { consumer: 'billing', inbox, schema },
  traced((event, { tx }) => {
    expectTypeOf(event.payload.cents).toEqualTypeOf<number>()
    expectTypeOf(tx).toEqualTypeOf<Tx>()
  }),
)

createBatchGuard({ consumer: 'billing', inbox, schema }, async (events, context) => {
  expectTypeOf(events).toEqualTypeOf<readonly GuardEvent<{ orderId: string; cents: number }>[]>()
  expectTypeOf(context).toEqualTypeOf<HandlerContext<Tx>>()
})

// Effects outside Postgres: no transaction, and a policy for takeovers.
createGuard({ consumer: 'mail', leases, onTakeover: 'retry', onStoreDown: 'wait' }, (_, { tx }) => {
  expectTypeOf(tx).toEqualTypeOf<undefined>()
  return { sent: true }
})

// Every optional field accepts undefined.
const options: Partial<Record<keyof CommonOptions<unknown, unknown>, undefined>> = {}
createGuard({ ...(options as object), consumer: 'billing', inbox, schema: undefined }, () => {})
createGuard(
  {
    consumer: 'billing',
    inbox,
    retry: { attempts: undefined },
    tenant: undefined,
    leases: undefined,
  },
  () => {},
)

// @ts-expect-error no store at all
createGuard({ consumer: 'billing' }, () => {})
// @ts-expect-error beside an inbox the handler cannot run without its store
createGuard({ consumer: 'billing', inbox, onStoreDown: 'unguarded' }, () => {})
// @ts-expect-error leases alone need a policy for takeovers
createGuard({ consumer: 'billing', leases }, () => {})
// The short form returns the result of the driver.
createGuard({ consumer: 'billing', inbox }, async (_, { tx }) => tx.query('select 1'))
createBatchGuard({ consumer: 'billing', inbox }, async (_, { tx }) => tx.query('select 1'))
createGuard(
  {
    consumer: 'billing',
    inbox,
    schema,
    afterCommit: async (result, { payload, headers }, { duplicate }) => {
      expectTypeOf(result).toEqualTypeOf<unknown>()
      expectTypeOf(payload).toEqualTypeOf<{ orderId: string; cents: number }>()
      expectTypeOf(headers['reply-to']).toEqualTypeOf<string | undefined>()
      expectTypeOf(duplicate).toEqualTypeOf<boolean>()
    },
  },
  () => ({ orderId: 'o' }),
)
// @ts-expect-error a batch has no result
createBatchGuard({ consumer: 'billing', inbox, transaction: 'each' }, () => {})

expectTypeOf<Resolver>().returns.toEqualTypeOf<string | number | bigint | undefined>()

// Several types of message: each handler has the payload of its schema and the transaction of the inbox.
const shipment = z.object({ shipmentId: z.string() })
const router = createGuard({
  consumer: 'orders',
  inbox,
  type: header('x-type'),
  unknown: 'dead-letter',
  tenant: ({ payload }) => {
    expectTypeOf(payload).toExtend<object>()
    return undefined
  },
  on: {
    'order.placed': {
      schema,
      retry: { attempts: 3 },
      handler: async ({ payload, type }, { tx }) => {
        expectTypeOf(payload).toEqualTypeOf<{ orderId: string; cents: number }>()
        expectTypeOf(type).toEqualTypeOf<string | undefined>()
        expectTypeOf(tx).toEqualTypeOf<Tx>()
      },
    },
    'order.shipped': {
      schema: shipment,
      eventKey: ({ payload }) => payload.shipmentId,
      handler: async ({ payload }, { tx }) => {
        expectTypeOf(payload).toEqualTypeOf<{ shipmentId: string }>()
        await tx.query(payload.shipmentId)
      },
    },
  },
})
expectTypeOf(router).toExtend<Guard>()
createBatchGuard({
  consumer: 'orders',
  inbox,
  on: {
    'order.placed': {
      schema,
      handler: async (events, context) => {
        expectTypeOf(events).toEqualTypeOf<
          readonly GuardEvent<{ orderId: string; cents: number }>[]
        >()
        expectTypeOf(context).toEqualTypeOf<HandlerContext<Tx>>()
      },
    },
  },
})
createGuard({
  consumer: 'orders',
  leases,
  onTakeover: 'retry',
  type: ({ payload }) => payload.kind,
  on: {
    raw: {
      handler: (event, { tx }) => {
        expectTypeOf(event.payload).toEqualTypeOf<unknown>()
        expectTypeOf(tx).toEqualTypeOf<undefined>()
      },
    },
    named: { handler: (event: GuardEvent<{ orderId: string }>) => event.payload.orderId },
  },
})
// @ts-expect-error a handler beside `on`
createGuard({ consumer: 'orders', inbox, on: { a: { handler: () => {} } } }, () => {})
// @ts-expect-error a schema for all beside `on`
createGuard({ consumer: 'orders', inbox, schema, on: { a: { handler: () => {} } } })
// @ts-expect-error a type without its handler
createGuard({ consumer: 'orders', inbox, on: { a: { schema } } })

// `once` asks for the payload of the handler and answers its result.
const reports = createGuard({ consumer: 'reports', inbox, schema: shipment }, async () => ({
  rows: 3,
}))
expectTypeOf(once(reports, { key: 'k', payload: { shipmentId: 's' } })).toEqualTypeOf<
  Promise<{ rows: number }>
>()
// @ts-expect-error another payload
void once(reports, { key: 'k', payload: { orderId: 'o' } })
// @ts-expect-error no payload
void once(reports, { key: 'k' })
declare const unnamed: Guard
expectTypeOf(once(unnamed, { key: 'k' })).toEqualTypeOf<Promise<unknown>>()
