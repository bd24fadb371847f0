import type { Delivery } from '@onceward/core'
import type { Guard } from '@onceward/core/adapter'
import {
  type Channel,
  type ChannelModel,
  type ConfirmChannel,
  type ConsumeMessage,
  connect,
  type RecoveringChannelModel,
} from 'amqplib'
import { expectTypeOf } from 'vitest'
import {
  type AmqpConfirmChannel,
  type AmqpConnection,
  amqpMessage,
  assertRetryTopology,
  type Consumption,
  consumeAmqp,
  fromAmqpMessage,
  wrapAmqp,
} from './index.ts'

declare const connection: ChannelModel
declare const recovering: RecoveringChannelModel
declare const channel: ConfirmChannel
declare const plain: Channel
declare const guard: Guard
declare const undefinedOrTarget: { readonly queue: string } | undefined

expectTypeOf(connection).toExtend<AmqpConnection>()
expectTypeOf(recovering).toExtend<AmqpConnection>()
expectTypeOf(channel).toExtend<AmqpConfirmChannel>()
expectTypeOf(consumeAmqp).returns.resolves.toEqualTypeOf<Consumption>()
expectTypeOf(fromAmqpMessage).toEqualTypeOf<(message: ConsumeMessage, queue: string) => Delivery>()
expectTypeOf(amqpMessage).returns.toEqualTypeOf<ConsumeMessage | undefined>()

const target = { exchange: 'dead', routingKey: 'orders' }
void consumeAmqp(connection, guard, {
  queue: 'q',
  deadLetter: undefinedOrTarget,
  signal: undefined,
})
void consumeAmqp(recovering, guard, { queue: 'q', deadLetter: 'dlx', prefetch: 10 })
void consumeAmqp(() => connect('amqp://localhost'), guard, { queue: 'q', deadLetter: target })
void consumeAmqp(() => connect('amqp://localhost', { recovery: true }), guard, { queue: 'q' })
// @ts-expect-error a queue is required
void consumeAmqp(connection, guard, {})
// @ts-expect-error nothing could be settled
void consumeAmqp(connection, guard, { queue: 'q', consumer: { noAck: true } })
// @ts-expect-error a wrap has no drain time of its own
wrapAmqp(channel, guard, { queue: 'q', drainMs: 5 })
// @ts-expect-error without confirms it is unknown whether a dead letter arrived
wrapAmqp(plain, guard, { queue: 'q' })

const handle = wrapAmqp(channel, guard, { queue: 'q', batch: { size: 5 } })
expectTypeOf(handle).toExtend<(message: ConsumeMessage | null) => void>()
expectTypeOf(handle.consumption).toEqualTypeOf<Pick<Consumption, 'health' | 'drain'>>()
void channel.consume('q', handle)
void assertRetryTopology(plain, 'q', [1_000])
void assertRetryTopology(connection, 'q', [1_000])
