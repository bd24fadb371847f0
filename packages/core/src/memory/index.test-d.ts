import { expectTypeOf, test } from 'vitest'
import { z } from 'zod'
import { cloudEventKey, createGuard, header, type Inbox, type LeaseStore } from '../index.ts'
import { memoryInbox, memoryLeases } from './index.ts'

interface Tx {
  query(text: string): Promise<void>
}
declare const tx: Tx

test('memory stores fit where the real ones do', () => {
  expectTypeOf(memoryLeases()).toExtend<LeaseStore>()
  expectTypeOf(memoryInbox()).toExtend<Inbox<undefined>>()
  expectTypeOf(memoryInbox(tx)).toExtend<Inbox<Tx>>()
  expectTypeOf(memoryInbox<Tx>(tx)).toExtend<Inbox<Tx>>()
})

test('a guard infers its transaction and payload from them', () => {
  const schema = z.object({ orderId: z.string() })
  const eventKey = [cloudEventKey(), header('order-id')]
  createGuard({ consumer: 'c', inbox: memoryInbox(tx), schema, eventKey }, (event, context) => {
    expectTypeOf(context.tx).toEqualTypeOf<Tx>()
    expectTypeOf(event.payload).toEqualTypeOf<{ orderId: string }>()
  })
  const key = ({ payload }: { payload: { orderId: string } }) => payload.orderId
  createGuard({ consumer: 'c', inbox: memoryInbox(), schema, eventKey: key }, (_event, context) => {
    expectTypeOf(context.tx).toEqualTypeOf<undefined>()
  })
})
