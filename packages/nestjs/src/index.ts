export {
  amqpBroker,
  type Broker,
  kafkaBroker,
  natsBroker,
  type Place,
  type Places,
  sqsBroker,
  streamBroker,
} from './brokers.ts'
export type { OncewardConsumer } from './consumer.ts'
export { OncewardConsumers } from './consumers.ts'
export { isOncewardContext, OncewardContext } from './context.ts'
export { Consume, ConsumeBatch, Event, Send, Signal, Tx } from './decorators.ts'
export { OncewardHealth, type OncewardHealthResult } from './health.ts'
export { type ClsAdapter, type Join, joinCls, joined, joinTypeormTransactional } from './join.ts'
export { OncewardModule } from './module.ts'
export { OnceAt, type OnceAtOptions, Tick, type TickPayload } from './once-at.ts'
export type {
  BatchOptions,
  HandlerOptions,
  OncewardModuleAsyncOptions,
  OncewardModuleOptions,
} from './options.ts'
export { OncewardStrategy, type StrategyOptions } from './strategy.ts'
export {
  OncewardTesting,
  type OncewardTestingTools,
  type TestedConsumers,
  type TestingBuilder,
  type TestingModuleLike,
} from './testing.ts'
