export type {
  Consumption,
  Destination,
  Health,
  OutboxMessage,
  OutgoingMessage,
} from '@onceward/core'
export type { RelayOptions } from './outbox/options.ts'
export { type OutboxFigures, type Relay, startRelay } from './outbox/relay.ts'
export { type SendOptions, sendWith } from './outbox/send-with.ts'
