import { type MemoryInbox, memoryInbox } from '@onceward/core/memory'
import type { OncewardConsumer } from './consumer.ts'
import { OncewardConsumers } from './consumers.ts'
import { OVERRIDES } from './module.ts'

/** What is used of `Test.createTestingModule(…)`. */
export interface TestingBuilder<Module> {
  overrideProvider(token: unknown): { useValue(value: unknown): unknown }
  compile(): Promise<Module>
}

/** What is used of a module that a test has made. */
export interface TestingModuleLike {
  init(): Promise<unknown>
  // biome-ignore lint/suspicious/noExplicitAny: as Nest types tokens
  get(token: any, options?: { strict: boolean }): any
}

/** What a test gets beside the module's own methods. */
export interface TestedConsumers<Tx> {
  /** Where the consumers keep their events: its `sent()` and `deadLetters()` are what handlers have sent and refused. */
  readonly inbox: MemoryInbox<Tx>
  /** Runs the handler of a consumer. See {@link OncewardConsumer.deliver}. */
  deliver(
    consumer: string,
    ...given: Parameters<OncewardConsumer['deliver']>
  ): ReturnType<OncewardConsumer['deliver']>
  /** The same message two times. See {@link OncewardConsumer.deliverTwice}. */
  deliverTwice(
    consumer: string,
    ...given: Parameters<OncewardConsumer['deliverTwice']>
  ): ReturnType<OncewardConsumer['deliverTwice']>
}

/** Helpers for unit tests of an application. */
export interface OncewardTestingTools {
  /**
   * Makes the module of a test, with an inbox in memory and without brokers and relay, and starts it. Guards, pipes,
   * interceptors and injection are those of the application.
   *
   * @param builder - `Test.createTestingModule(…)`.
   * @param options - `tx`: what handlers get as their transaction.
   *
   * @example
   * ```ts
   * const module = await OncewardTesting.module(
   *   Test.createTestingModule({ imports: [OncewardModule.forRoot({ brokers })], providers: [Billing] }),
   *   { tx },
   * )
   * await module.deliverTwice('billing', { orderId: 'o-1', cents: 100 })
   * ```
   */
  module<Module extends TestingModuleLike, Tx = undefined>(
    builder: TestingBuilder<Module>,
    options?: { readonly tx?: Tx },
  ): Promise<Module & TestedConsumers<Tx>>
}

export const OncewardTesting: OncewardTestingTools = {
  async module<Module extends TestingModuleLike, Tx>(
    builder: TestingBuilder<Module>,
    options: { readonly tx?: Tx } = {},
  ): Promise<Module & TestedConsumers<Tx>> {
    const inbox = memoryInbox(options.tx) as MemoryInbox<Tx>
    const overrides = { inbox, consume: false, relay: undefined }
    builder.overrideProvider(OVERRIDES).useValue(overrides)
    const module = await builder.compile()
    await module.init()
    const consumers: OncewardConsumers = module.get(OncewardConsumers, { strict: false })
    const tools: TestedConsumers<Tx> = {
      inbox,
      deliver: (consumer, ...given) => consumers.get(consumer).deliver(...given),
      deliverTwice: (consumer, ...given) => consumers.get(consumer).deliverTwice(...given),
    }
    return Object.assign(module, tools)
  },
}
