import 'reflect-metadata'
import { setImmediate } from 'node:timers/promises'
import {
  type CanActivate,
  Catch,
  Controller,
  type ExceptionFilter,
  type INestApplication,
  Inject,
  Injectable,
  Module,
  Scope,
  UseFilters,
  UseGuards,
} from '@nestjs/common'
import { APP_FILTER, NestFactory } from '@nestjs/core'
import { Ctx, EventPattern, MessagePattern, Payload } from '@nestjs/microservices'
import { Test } from '@nestjs/testing'
import { type Consumption, type Delivery, FatalError, type Outbox } from '@onceward/core'
import { type MemoryInbox, memoryInbox, toDelivery } from '@onceward/core/memory'
import { EMPTY, Observable, of } from 'rxjs'
import { expect, onTestFinished, test } from 'vitest'
import {
  type Broker,
  OncewardConsumers,
  OncewardContext,
  OncewardModule,
  OncewardStrategy,
  Send,
  type StrategyOptions,
} from './index.ts'

// Its type refuses handlers of fewer or typed parameters under `exactOptionalPropertyTypes`.
const OnEvent = EventPattern as (pattern: string | object) => MethodDecorator

interface Order {
  readonly orderId: string
}

/** Brings nothing: deliveries come from `deliver`. */
const silent: Broker<object> = {
  consume: async () =>
    ({
      stopped: Promise.resolve(),
      drain: async () => undefined,
      health: () => ({ state: 'running', inFlight: 0, settleFailures: 0 }),
      [Symbol.asyncDispose]: async () => undefined,
    }) satisfies Consumption,
}

interface App {
  readonly app: INestApplication
  readonly inbox: MemoryInbox<{ name: string }>
  readonly deliver: (payload: unknown, overrides?: Partial<Delivery>) => Promise<unknown>
}

interface Settings {
  readonly controllers: readonly (new (...given: never[]) => object)[]
  readonly providers?: readonly object[]
  readonly options?: Partial<StrategyOptions<object>>
  readonly inherit?: boolean
}

async function start({ controllers, inherit, options, providers = [] }: Settings): Promise<App> {
  const inbox = memoryInbox({ name: 'tx' })
  @Module({
    imports: [OncewardModule.forRoot({})],
    controllers: controllers as never,
    providers: providers as never,
  })
  class AppModule {}
  const module = await Test.createTestingModule({ imports: [AppModule] }).compile()
  const app = module.createNestApplication({ logger: false })
  const strategy = new OncewardStrategy<object>({
    ...{ broker: silent, place: {}, consumer: 'orders', inbox, retry: { attempts: 2, baseMs: 0 } },
    ...{ eventKey: ({ headers, messageId }) => headers['id'] ?? messageId, ...options },
  })
  app.connectMicroservice({ strategy }, { inheritAppConfig: inherit ?? false })
  onTestFinished(() => app.close())
  await app.startAllMicroservices()
  await app.init()
  const deliver: App['deliver'] = (...given) =>
    app
      .get(OncewardConsumers)
      .get('orders')
      .deliver(...given)
  return { app, inbox, deliver }
}

const placed = { pattern: 'order.placed', data: { orderId: 'o-1' } }
const processed = { kind: 'ack', by: 'processed' }
const fatal = { kind: 'dead-letter', reason: 'fatal', error: expect.any(FatalError) }

test('a handler of a pattern gets the data, the context and our parameters, once for an event that comes twice', async () => {
  const seen: unknown[] = []
  @Controller()
  class Orders {
    @OnEvent('order.placed')
    placed(@Payload() order: Order, @Ctx() context: OncewardContext, @Send() outbox: Outbox): void {
      outbox.send({ to: 'receipts', payload: order })
      seen.push([order, context instanceof OncewardContext, context.tx, context.getPattern()])
    }
  }
  const { app, inbox } = await start({ controllers: [Orders] })
  const answers = await app.get(OncewardConsumers).get('orders').deliverTwice(placed)
  expect(answers).toMatchObject([processed, { kind: 'ack', by: 'duplicate' }])
  expect(seen).toEqual([[{ orderId: 'o-1' }, true, { name: 'tx' }, 'order.placed']])
  expect(inbox.sent()).toHaveLength(1)
})

test('the pattern comes from what Nest sends, a header, a type, or the name of the queue', async () => {
  const seen: unknown[] = []
  @Controller()
  class Orders {
    @OnEvent('order.placed')
    placed(@Ctx() { pattern }: OncewardContext): void {
      seen.push(pattern)
    }
    @OnEvent({ cmd: 'ship', region: 'eu' })
    shipped(@Ctx() { pattern }: OncewardContext): void {
      seen.push(pattern)
    }
    @OnEvent('orders')
    anything(@Ctx() { pattern }: OncewardContext): void {
      seen.push(pattern)
    }
  }
  const { deliver } = await start({ controllers: [Orders] })
  await deliver(placed)
  await deliver({ orderId: 'o-2' }, { headers: { type: 'order.placed', id: '2' } })
  await deliver({ orderId: 'o-3' }, { headers: { 'ce-type': 'order.placed', id: '3' } })
  await deliver({ orderId: 'o-4', type: 'order.placed' })
  await deliver({ pattern: { region: 'eu', cmd: 'ship' }, data: {} })
  await deliver({ orderId: 'o-5' }, { source: { broker: 'kafka', queue: 'orders' } })
  const shipped = '{"cmd":"ship","region":"eu"}'
  expect(seen).toEqual([...Array.from({ length: 4 }, () => 'order.placed'), shipped, 'orders'])
})

test('a pattern that no handler has is dead-lettered, or skipped if the options say so', async () => {
  @Controller()
  class Orders {
    @OnEvent('order.placed')
    placed(): void {}
  }
  const unknown = { pattern: 'order.lost', data: {} }
  const loud = await start({ controllers: [Orders] })
  const answer = await loud.deliver(unknown)
  expect(answer).toMatchObject({
    ...fatal,
    error: { message: 'No @EventPattern handler has the pattern of the message: order.lost.' },
  })
  const quiet = await start({ controllers: [Orders], options: { unknown: 'skip' } })
  expect(await quiet.deliver(unknown)).toMatchObject({ kind: 'ack', by: 'skipped' })
  expect(await quiet.deliver(placed)).toMatchObject(processed)
})

class Failing implements CanActivate {
  canActivate(): boolean {
    throw new FatalError('forbidden for ever')
  }
}

/** As some do to keep the log clean: Nest then takes the event for handled. */
@Catch()
class Hiding implements ExceptionFilter {
  catch() {
    return EMPTY
  }
}

/** Ends in another asynchronous context than the handler's. */
const endLater = (error: Error): Observable<never> =>
  new Observable((subscriber) => {
    queue.push(() => subscriber.error(error))
  })
const queue: (() => void)[] = []

@Controller()
class Throwing {
  @OnEvent('throws')
  throws(): void {
    throw new FatalError('no such order')
  }
  @OnEvent('rejects')
  async rejects(): Promise<void> {
    throw new FatalError('no such order')
  }
  @OnEvent('streams')
  streams(): Observable<never> {
    return endLater(new FatalError('no such order'))
  }
  @UseGuards(Failing)
  @OnEvent('guarded')
  guarded(): void {}
}

/** Request-scoped, so Nest makes its handlers for each message. */
@Injectable({ scope: Scope.REQUEST })
class Trail {}
@Controller()
class Scoped {
  readonly trail: Trail
  constructor(@Inject(Trail) trail: Trail) {
    this.trail = trail
  }
  @OnEvent('scoped')
  async scoped(): Promise<void> {
    throw new FatalError('no such order')
  }
}

test.each([
  ['Nest’s default filter', []],
  ['a filter of the application that answers EMPTY', [{ provide: APP_FILTER, useClass: Hiding }]],
])('trap N1, N2: a FatalError is dead-lettered, whatever %s makes of it', async (_, providers) => {
  const { deliver } = await start({
    ...{ controllers: [Throwing, Scoped], providers: [Trail, ...providers], inherit: true },
  })
  for (const pattern of ['throws', 'rejects', 'guarded', 'scoped']) {
    expect(await deliver({ pattern, data: {} }), pattern).toMatchObject(fatal)
  }
  const streamed = deliver({ pattern: 'streams', data: {} })
  while (queue.length === 0) await setImmediate()
  queue.pop()?.()
  expect(await streamed).toMatchObject(fatal)
})

test('trap N2: an error that a filter of the handler hides fails the attempt, and filters still run', async () => {
  const told: unknown[] = []
  @Catch()
  class Telling implements ExceptionFilter {
    catch(error: unknown) {
      told.push(error)
      return of(null)
    }
  }
  @Controller()
  class Orders {
    @UseFilters(Telling)
    @OnEvent('order.placed')
    placed(): void {
      throw new Error('the bank does not answer')
    }
  }
  const { deliver } = await start({ controllers: [Orders] })
  const error = { message: 'the bank does not answer' }
  expect(await deliver(placed)).toMatchObject({ kind: 'defer', reason: 'failed', error })
  expect(told).toMatchObject([error])
})

test('several handlers of a pattern run in order, and none of them is committed when the last one fails', async () => {
  const told: string[] = []
  @Controller()
  class Orders {
    @OnEvent('order.placed')
    async first(@Send() outbox: Outbox): Promise<void> {
      outbox.send({ to: 'receipts', payload: {} })
      await setImmediate()
      told.push('first')
    }
    @OnEvent('order.placed')
    second(): void {
      told.push('second')
      if (told.length === 2) throw new Error('not yet')
    }
  }
  const { deliver, inbox } = await start({ controllers: [Orders] })
  const delivery = toDelivery(placed)
  const again = { headers: delivery.headers, messageId: 'm-1' }
  expect(await deliver(placed, again)).toMatchObject({ kind: 'defer', reason: 'failed' })
  expect(inbox.sent()).toEqual([])
  expect(await deliver(placed, again)).toMatchObject(processed)
  expect(told).toEqual(['first', 'second', 'first', 'second'])
  expect(inbox.sent()).toHaveLength(1)
})

test('refuses a handler whose sender waits for an answer', async () => {
  @Controller()
  class Orders {
    @MessagePattern('order.sum')
    sum(): number {
      return 1
    }
  }
  await expect(start({ controllers: [Orders] })).rejects.toThrow(
    'The handler of `order.sum` has @MessagePattern, whose sender waits for an answer.',
  )
})

test('refuses an application without the module', async () => {
  @Module({})
  class AppModule {}
  const strategy = new OncewardStrategy<object>({
    ...{ broker: silent, place: {}, consumer: 'orders', inbox: memoryInbox() },
  })
  const app = await NestFactory.createMicroservice(AppModule, { strategy, logger: false })
  onTestFinished(() => app.close())
  await expect(app.listen()).rejects.toThrow('OncewardStrategy needs OncewardModule')
})
