import type { OnApplicationBootstrap, OnModuleDestroy, OnModuleInit } from '@nestjs/common'
import type { ModulesContainer } from '@nestjs/core'
import { ConfigurationError, type Consumption, type Health, type Logger } from '@onceward/core'
import { consoleLogger } from '@onceward/core/adapter'
import { systemRuntime } from '@onceward/core/ports'
import type { Broker } from './brokers.ts'
import { type ConsumerParts, type OncewardConsumer, RunningConsumer } from './consumer.ts'
import { OncewardContext } from './context.ts'
import { asBatch } from './decorators.ts'
import {
  type FoundHandler,
  findHandlers,
  handlerCall,
  methodsOf,
  type NestParts,
  shownHandler,
  type Wrapper,
} from './handlers.ts'
import { runJoined } from './join.ts'
import { replaceRun } from './once-at.ts'
import { type OncewardModuleOptions, splitOptions } from './options.ts'
import { loadFor } from './package-loader.ts'
import { cronOptionsOf, findJob } from './schedule.ts'
import { endedTooEarly } from './shutdown-order.ts'
import { OncewardStrategy } from './strategy.ts'
import { Ticks } from './ticks.ts'
import { isEventHandler, watch } from './witness.ts'

type AttachedStrategy = Pick<OncewardStrategy, 'attach' | 'close' | 'consumer'>

interface Parts {
  readonly options: OncewardModuleOptions
  readonly nest: NestParts
  readonly modules: ModulesContainer
}

/**
 * The consumers of the application, those of an `OncewardStrategy` included. They start when the application has started,
 * and drain before the modules end that are imported before `OncewardModule`. Made by the module: inject it.
 */
export class OncewardConsumers implements OnModuleInit, OnApplicationBootstrap, OnModuleDestroy {
  readonly #parts: Parts
  readonly #strategies: AttachedStrategy[] = []
  readonly #ticks: Ticks[] = []
  #own: readonly RunningConsumer[] | undefined
  #relay: Consumption | undefined
  #isOver = false

  /** Called by the module. */
  constructor(parts: Parts) {
    this.#parts = parts
    const { modules, nest } = parts
    for (const { key, method, prototype } of this.#controllers().flatMap((each) =>
      methodsOf(nest, each),
    )) {
      if (isEventHandler(method)) watch(prototype, key)
    }
    // Nest tells of each microservice before it makes its handlers.
    modules.getRpcTargetRegistry<unknown>().subscribe((target) => {
      if (target instanceof OncewardStrategy) this.#attach(target)
    })
  }

  #controllers(): readonly Wrapper[] {
    return this.#parts.nest.discovery.getControllers()
  }

  #attach(strategy: AttachedStrategy): void {
    this.#strategies.push(strategy)
    const { consume = true, join = [], logger } = this.#parts.options
    strategy.attach({ consume, join, logger })
  }

  /**
   * Finds a consumer by its name, once the application has been made.
   *
   * @throws {@link ConfigurationError} if there is none.
   */
  get(name: string): OncewardConsumer {
    return this.#find(name)
  }

  #find(name: string): RunningConsumer {
    const all = this.#all()
    const found = all.find((each) => each.name === name)
    if (found !== undefined) return found
    const names = all.map((each) => each.name).join(', ')
    throw new ConfigurationError(`There is no consumer \`${name}\`. There is: ${names || 'none'}.`)
  }

  /** How each consumer is, and the relay, by name. Those that have not started are left out. */
  health(): Readonly<Record<string, Health>> {
    const states = this.#all().map((each) => [each.name, each.health()] as const)
    const relay = this.#relay?.health()
    const all = relay === undefined ? states : [...states, ['relay', relay] as const]
    return Object.fromEntries(
      all.filter((entry): entry is [string, Health] => entry[1] !== undefined),
    )
  }

  #all(): readonly RunningConsumer[] {
    this.#own ??= this.#createConsumers()
    return [...this.#own, ...this.#strategies.map((strategy) => strategy.consumer)]
  }

  /** Called by Nest, before the scheduler fires. */
  onModuleInit(): void {
    for (const handler of findHandlers(this.#parts.nest)) {
      if (handler.mark.broker === undefined) this.#prepareTicks(handler)
    }
  }

  #prepareTicks(handler: FoundHandler): void {
    const { instance } = handler.wrapper
    const method = Reflect.get(instance, handler.key)
    const cron = cronOptionsOf(method)
    if (cron === undefined) {
      throw new ConfigurationError(
        `${shownHandler(handler)} has @OnceAt and no @Cron of @nestjs/schedule, which says when it runs.`,
      )
    }
    const { consumer: name, dedupWindowMs } = handler.mark.options
    const ticks = new Ticks({
      ...{ name, dedupWindowMs: dedupWindowMs as number | undefined },
      once: (call) => this.#find(name).once(call),
      job: () => findJob(this.#parts.nest.moduleRef, cron),
    })
    this.#ticks.push(ticks)
    const { consume = true } = this.#parts.options
    replaceRun(method, instance, async () => (consume ? ticks.run() : undefined))
  }

  /** Called by Nest. */
  async onApplicationBootstrap(): Promise<void> {
    const { consume = true, join = [] } = this.#parts.options
    this.#all()
    try {
      for (const { prepare } of join) await prepare?.()
      this.#warnOfOrder()
      await this.#startRelay()
      if (consume) await Promise.all((this.#own ?? []).map((consumer) => consumer.start()))
    } catch (error) {
      // Nest ends no application that has not started.
      await this.onModuleDestroy()
      throw error
    }
  }

  async #startRelay(): Promise<void> {
    const { inbox, logger, relay } = this.#parts.options
    if (relay === undefined) return
    const { connectionString, pool } = relay
    const isPlaced = connectionString !== undefined || pool !== undefined
    const load = () => import('@onceward/postgres/outbox')
    const { startRelay } = await loadFor('The option `relay`', '@onceward/postgres', load)
    const place = isPlaced ? {} : { inbox }
    this.#relay = await startRelay({ ...place, ...(logger !== undefined && { logger }), ...relay })
  }

  /** Called by Nest, on a signal before it closes microservices: drains all consumers, then the relay. */
  async onModuleDestroy(): Promise<void> {
    if (this.#isOver) return
    this.#isOver = true
    for (const ticks of this.#ticks) ticks.stop()
    await Promise.all((this.#own ?? []).map((consumer) => consumer.drain()))
    await Promise.all(this.#strategies.map((strategy) => strategy.close()))
    await this.#relay?.drain()
  }

  #warnOfOrder(): void {
    const { modules, nest } = this.#parts
    const patterned = this.#controllers().filter((wrapper) =>
      methodsOf(nest, wrapper).some(({ method }) => isEventHandler(method)),
    )
    const handlers = [...findHandlers(nest).map(({ wrapper }) => wrapper), ...patterned]
    const providers = endedTooEarly(modules, this, handlers)
    if (providers.length === 0) return
    this.#logger().warn(
      { providers },
      'at shutdown these providers end before the handlers that use them: import OncewardModule after their modules, which must not be the root module',
    )
  }

  #logger(): Logger {
    return this.#parts.options.logger ?? consoleLogger(systemRuntime)
  }

  #createConsumers(): readonly RunningConsumer[] {
    const handlers = findHandlers(this.#parts.nest)
    const names = new Map<string, FoundHandler>()
    for (const handler of handlers) {
      const { consumer } = handler.mark.options
      const other = names.get(consumer)
      if (other !== undefined) {
        throw new ConfigurationError(
          `Two handlers have the consumer \`${consumer}\`: ${shownHandler(other)} and ${shownHandler(handler)}. Give each its own, and a provider to one module alone.`,
        )
      }
      names.set(consumer, handler)
    }
    return handlers.map((handler) => new RunningConsumer(this.#partsOf(handler)))
  }

  #partsOf(handler: FoundHandler): ConsumerParts {
    const { nest, options } = this.#parts
    const { isBatch, options: given } = handler.mark
    const { guard, place } = splitOptions(given)
    if (guard['on'] !== undefined) {
      throw new ConfigurationError(
        `${shownHandler(handler)} has the option \`on\`, whose handlers would be none of Nest: write a method with @EventPattern for each type, behind an OncewardStrategy.`,
      )
    }
    const call = handlerCall(nest, handler)
    return {
      ...{ name: given.consumer, place, isBatch, broker: this.#brokerOf(handler) },
      guard: { ...this.#defaultsFor(guard), ...guard },
      run: (events, context) => {
        const run = new OncewardContext(context, { consumer: given.consumer, events })
        const input = isBatch ? events : run.event
        const handle = () => call(input, isBatch ? asBatch(run) : run)
        return runJoined(options.join ?? [], context, handle)
      },
    }
  }

  /** Effects are elsewhere where `dedup` or `onTakeover` says so. */
  #defaultsFor(guard: Readonly<Record<string, unknown>>): object {
    const { inbox, logger } = this.#parts.options
    const isElsewhere = guard['dedup'] !== undefined || guard['onTakeover'] !== undefined
    return {
      ...(inbox !== undefined && !isElsewhere && { inbox }),
      ...(logger !== undefined && { logger }),
    }
  }

  #brokerOf(handler: FoundHandler): Broker | undefined {
    const { brokers = {} } = this.#parts.options
    const { broker } = handler.mark
    if (broker === undefined) return undefined
    const found = Object.hasOwn(brokers, broker) ? brokers[broker] : undefined
    if (found !== undefined) return found
    const names = Object.keys(brokers).join(', ') || 'none'
    throw new ConfigurationError(
      `${shownHandler(handler)} consumes from the broker \`${broker}\`, which \`brokers\` of OncewardModule does not have. It has: ${names}.`,
    )
  }
}
