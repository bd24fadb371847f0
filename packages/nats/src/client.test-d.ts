import { type JsMsg, jetstream } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import type { Guard } from '@onceward/core/adapter'
import { expectTypeOf } from 'vitest'
import {
  type Consumption,
  consumeNats,
  type NatsClient,
  type NatsMessage,
  wrapNats,
} from './index.ts'

declare const guard: Guard
declare const connection: NatsConnection

expectTypeOf<NatsConnection>().toExtend<NatsClient>()
// A message of the client's own loop is what handlers get.
expectTypeOf<JsMsg>().toExtend<NatsMessage>()
expectTypeOf(consumeNats).returns.resolves.toEqualTypeOf<Consumption>()

// @ts-expect-error the client of JetStream is no connection
void consumeNats(jetstream(connection), guard, { stream: 'ORDERS' })
// @ts-expect-error a stream is required
void consumeNats(connection, guard, {})
// @ts-expect-error the loop is the user's
wrapNats(connection, guard, { stream: 'ORDERS', drainMs: 5 })
