import 'reflect-metadata'
import { Controller, type INestApplicationContext, Injectable, Module } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { EventPattern } from '@nestjs/microservices'
import type {
  Consumption,
  Guard,
  GuardEvent,
  Handler,
  HandlerContext,
  InboxGuardOptions,
} from '@onceward/core'
import {
  type Broker,
  Consume,
  Event,
  OncewardConsumers,
  OncewardModule,
  OncewardStrategy,
  Tx,
} from '@onceward/nestjs'
import type { NestKind, Order } from './protocol.ts'

interface Parts {
  readonly options: InboxGuardOptions<Order, unknown>
  readonly handler: Handler<Order, unknown>
  /** Consumes with the guard that the service has made. */
  readonly consume: (guard: Guard) => Promise<Consumption>
}

/** Starts a service of NestJS with one consumer. Draining it is closing the application. */
export async function startService(kind: NestKind, parts: Parts): Promise<Consumption> {
  const consumptions: Consumption[] = []
  const broker: Broker<object> = {
    consume: async (guard) => {
      const consumption = await parts.consume(guard)
      consumptions.push(consumption)
      return consumption
    },
  }
  const app = await APPS[kind](broker, parts)
  const [consumption] = consumptions
  if (consumption === undefined) throw new Error('The service has started without a consumer.')
  return {
    stopped: consumption.stopped,
    // Through the module, as the application sees it.
    health: () =>
      app.get(OncewardConsumers).health()[parts.options.consumer] ?? consumption.health(),
    drain: () => app.close(),
    [Symbol.asyncDispose]: () => app.close(),
  }
}

// Node runs this file as it is and knows no decorators, so they are called.

const QUIET = { logger: false, abortOnError: false } as const

const APPS: Readonly<
  Record<NestKind, (broker: Broker<object>, parts: Parts) => Promise<INestApplicationContext>>
> = {
  '@Consume': async (broker, { handler, options }) => {
    const Orders = handlerClass(handler)
    const descriptor = Object.getOwnPropertyDescriptor(Orders.prototype, 'handle') ?? {}
    const mark = Consume('orders', options as never)
    mark(Orders.prototype, 'handle', descriptor)
    Injectable()(Orders)
    const brokers = { orders: broker as unknown as Broker }
    class AppModule {}
    Module({ imports: [OncewardModule.forRoot({ brokers })], providers: [Orders] })(AppModule)
    return NestFactory.createApplicationContext(AppModule, QUIET)
  },
  OncewardStrategy: async (broker, { handler, options }) => {
    const Orders = handlerClass(handler)
    const descriptor = Object.getOwnPropertyDescriptor(Orders.prototype, 'handle') ?? {}
    const mark = EventPattern('order') as MethodDecorator
    mark(Orders.prototype, 'handle', descriptor)
    Controller()(Orders)
    class AppModule {}
    Module({ imports: [OncewardModule.forRoot({})], controllers: [Orders] })(AppModule)
    const strategy = new OncewardStrategy<object, Order, unknown>({
      ...(options as object as Pick<typeof options, 'consumer'>),
      ...{ broker, place: {}, pattern: () => 'order' },
    })
    const app = await NestFactory.createMicroservice(AppModule, { strategy, ...QUIET })
    await app.listen()
    return app
  },
}

/** A class whose method is the handler. */
function handlerClass(handler: Handler<Order, unknown>) {
  class Orders {
    handle(event: GuardEvent<Order>, tx: unknown): Promise<unknown> | unknown {
      return handler(event, { tx } as HandlerContext<unknown>)
    }
  }
  Event()(Orders.prototype, 'handle', 0)
  Tx()(Orders.prototype, 'handle', 1)
  return Orders
}
