import type { EventEmitter } from 'node:events'
import type { Channel, ConfirmChannel } from 'amqplib'

interface Emitter {
  /** As Node declares it: the types of amqplib 0.10 fit nothing narrower. */
  on(event: string, listener: Parameters<EventEmitter['on']>[1]): unknown
  removeListener?(event: string, listener: (...args: unknown[]) => void): unknown
}

/** What this package calls of a channel of amqplib. */
export interface AmqpChannel
  extends Emitter,
    Pick<
      Channel,
      | 'ack'
      | 'nack'
      | 'assertQueue'
      | 'cancel'
      | 'checkExchange'
      | 'checkQueue'
      | 'close'
      | 'consume'
      | 'prefetch'
    > {
  readonly connection?: unknown
}

/** What this package calls of a confirm channel of amqplib. */
export interface AmqpConfirmChannel
  extends AmqpChannel,
    Pick<ConfirmChannel, 'publish' | 'waitForConfirms'> {}

/** A connection of amqplib: what `connect()` answers, with its `recovery` or without. Heartbeats and TLS are yours. */
export interface AmqpConnection extends Emitter {
  createChannel(): Promise<AmqpChannel>
  createConfirmChannel(): Promise<AmqpConfirmChannel>
  /** Called only on connections that onceward opened. */
  close?(): Promise<void>
}
