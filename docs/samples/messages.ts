import {
  createGuard,
  debezium,
  type Guard,
  type GuardEvent,
  header,
  type Inbox,
  s3Key,
  s3TestEvent,
  unwrapConfluent,
  unwrapMassTransit,
} from '@onceward/core'
import type { PoolClient } from 'pg'

interface Order {
  readonly orderId: string
}
type Registry = { decode(body: Uint8Array): Promise<unknown> }

async function charge(
  { payload }: GuardEvent<unknown>,
  { tx }: { readonly tx: PoolClient },
): Promise<void> {
  const { orderId } = payload as Order
  await tx.query('insert into charges (order_id, cents) values ($1, 1)', [orderId])
}

/** The same handler behind producers of other systems: what differs is how a message is read. */
export function createGuards(inbox: Inbox<PoolClient>, registry: Registry): readonly Guard[] {
  const common = { consumer: 'billing', inbox }
  const avro = unwrapConfluent(({ body }) => registry.decode(body))
  return [
    createGuard({ ...common, decode: unwrapMassTransit() }, charge),
    createGuard({ ...common, decode: debezium() }, charge),
    createGuard({ ...common, decode: debezium(avro) }, charge),
    createGuard({ ...common, eventKey: header('id') }, charge),
    createGuard({ ...common, eventKey: header('NServiceBus.MessageId') }, charge),
    createGuard({ ...common, eventKey: s3Key(), skip: s3TestEvent }, charge),
  ]
}
