import 'reflect-metadata'
import {
  type CallHandler,
  type CanActivate,
  Controller,
  type ExecutionContext,
  ForbiddenException,
  Inject,
  Injectable,
  Module,
  type NestInterceptor,
  type PipeTransform,
  Scope,
  UseFilters,
  UseGuards,
  UseInterceptors,
} from '@nestjs/common'
import { APP_GUARD, REQUEST } from '@nestjs/core'
import { Test } from '@nestjs/testing'
import { FatalError, type GuardEvent, type Outbox } from '@onceward/core'
import { EMPTY, map, of } from 'rxjs'
import { expect, test } from 'vitest'
import {
  Consume,
  ConsumeBatch,
  Event,
  isOncewardContext,
  OncewardConsumers,
  type OncewardContext,
  OncewardModule,
  type OncewardModuleOptions,
  OncewardTesting,
  Send,
  Signal,
  sqsBroker,
  Tx,
} from './index.ts'

interface Order {
  readonly orderId: string
}

const place = { queueUrl: 'http://127.0.0.1:1/1/orders' }
const orderKey = { eventKey: ({ payload }: { payload: unknown }) => (payload as Order).orderId }
// No call is made: consumers of a test take no messages.
const brokers: OncewardModuleOptions['brokers'] = {
  sqs: sqsBroker({ send: () => Promise.reject(new Error('not called')) } as never),
}

/** A module of the application, with what a test looks at. */
const moduleOf = (...providers: readonly object[]) =>
  Test.createTestingModule({
    imports: [OncewardModule.forRoot({ brokers })],
    providers: providers as never,
  })

test('a handler gets event, transaction, outbox and signal, and an event that comes twice has one effect', async () => {
  const seen: unknown[][] = []
  class Billing {
    @Consume('sqs', { consumer: 'billing', ...place, ...orderKey })
    charge(
      @Signal() signal: AbortSignal,
      @Event() event: GuardEvent<Order>,
      @Tx() tx: unknown,
      @Send() outbox: Outbox,
    ): object {
      outbox.send({ to: 'receipts', payload: event.payload })
      seen.push([event.payload, event.key, tx, signal.aborted])
      return { charged: true }
    }
  }
  const tx = { name: 'tx' }
  const module = await OncewardTesting.module(moduleOf(Billing), { tx })
  const answers = await module.deliverTwice('billing', { orderId: 'o-1' })
  expect(answers).toMatchObject([
    { kind: 'ack', by: 'processed', result: { charged: true } },
    { kind: 'ack', by: 'duplicate' },
  ])
  expect(seen).toEqual([[{ orderId: 'o-1' }, 'o-1', tx, false]])
  expect(module.inbox.sent()).toMatchObject([{ to: 'receipts', payload: { orderId: 'o-1' } }])
  await module.close()
})

test('guards, interceptors and pipes run, and filters do not: errors keep their class', async () => {
  const told: string[] = []
  class Allowed implements CanActivate {
    canActivate(context: ExecutionContext): boolean {
      told.push(`guard ${context.getType()} ${isOncewardContext(context)}`)
      const [event] = context.getArgs<[GuardEvent<Order>]>()
      return event.payload.orderId !== 'forbidden'
    }
  }
  class Doubling implements NestInterceptor {
    intercept(_: ExecutionContext, next: CallHandler) {
      return next.handle().pipe(map((value) => ({ twice: value })))
    }
  }
  class ToOrderId implements PipeTransform {
    transform({ payload }: GuardEvent<Order>): string {
      return payload.orderId
    }
  }
  class Hiding {
    catch() {
      return EMPTY
    }
  }
  class Billing {
    @UseGuards(Allowed)
    @UseInterceptors(Doubling)
    @UseFilters(Hiding)
    @Consume('sqs', { consumer: 'billing', ...place, ...orderKey })
    charge(@Event(ToOrderId) orderId: string) {
      if (orderId === 'fatal') throw new FatalError('no such order')
      return of(orderId)
    }
  }
  const module = await OncewardTesting.module(moduleOf(Billing))
  expect(await module.deliver('billing', { orderId: 'o-1' })).toMatchObject({
    kind: 'ack',
    result: { twice: 'o-1' },
  })
  const fatal = await module.deliver('billing', { orderId: 'fatal' })
  expect(fatal).toMatchObject({
    kind: 'dead-letter',
    reason: 'fatal',
    error: expect.any(FatalError),
  })
  expect(await module.deliver('billing', { orderId: 'forbidden' })).toMatchObject({
    kind: 'defer',
    reason: 'failed',
    error: expect.any(ForbiddenException),
  })
  expect(told).toEqual(Array.from({ length: 3 }, () => 'guard onceward true'))
  await module.close()
})

test('a stream without a value is a handler that returns nothing', async () => {
  class Billing {
    @Consume('sqs', { consumer: 'billing', ...place, ...orderKey })
    charge() {
      return EMPTY
    }
  }
  const module = await OncewardTesting.module(moduleOf(Billing))
  const answer = await module.deliver('billing', { orderId: 'o-1' })
  expect(answer).toMatchObject({ kind: 'ack', by: 'processed' })
  await module.close()
})

test('a guard made for requests lets messages pass with isOncewardContext', async () => {
  class Billing {
    @Consume('sqs', { consumer: 'billing', ...place, ...orderKey })
    charge(): void {}
  }
  const Session: CanActivate = {
    canActivate: (context) =>
      isOncewardContext(context) || context.switchToHttp().getRequest().headers.cookie === 'a',
  }
  const module = await OncewardTesting.module(
    moduleOf(Billing, { provide: APP_GUARD, useValue: Session }),
  )
  const answer = await module.deliver('billing', { orderId: 'o-1' })
  expect(answer).toMatchObject({ kind: 'ack', by: 'processed' })
  await module.close()
})

test('a request-scoped provider is made for each message, with its context as the request', async () => {
  const made: string[] = []
  @Injectable({ scope: Scope.REQUEST })
  class Trail {
    readonly of: string
    constructor(@Inject(REQUEST) { event }: OncewardContext) {
      this.of = event.key
      made.push(event.key)
    }
  }
  class Billing {
    readonly trail: Trail
    constructor(@Inject(Trail) trail: Trail) {
      this.trail = trail
    }
    @Consume('sqs', { consumer: 'billing', ...place, ...orderKey })
    charge(@Event() { key }: GuardEvent<Order>): boolean {
      return this.trail.of === key
    }
  }
  const module = await OncewardTesting.module(moduleOf(Billing, Trail))
  const both = [{ orderId: 'o-1' }, { orderId: 'o-2' }].map((each) =>
    module.deliver('billing', each),
  )
  expect(await Promise.all(both)).toMatchObject([{ result: true }, { result: true }])
  expect(made.toSorted()).toEqual(['o-1', 'o-2'])
  await module.close()
})

test('@ConsumeBatch gets the events of a transaction together', async () => {
  const seen: unknown[] = []
  class Billing {
    @ConsumeBatch('sqs', { consumer: 'billing', ...place, ...orderKey })
    async charge(@Event() events: readonly GuardEvent<Order>[]): Promise<void> {
      seen.push(events.map(({ key }) => key))
    }
  }
  const module = await OncewardTesting.module(moduleOf(Billing))
  await module.deliverTwice('billing', { orderId: 'o-1' })
  expect(seen).toEqual([['o-1']])
  await module.close()
})

class Billing {
  @Consume('sqs', { consumer: 'billing', ...place })
  charge(): void {}
}
class OtherBilling {
  @Consume('sqs', { consumer: 'billing', ...place })
  chargeAgain(): void {}
}
class OnKafka {
  @Consume('kafka', { consumer: 'audit', topics: ['orders'] })
  audit(): void {}
}
class Routing {
  @Consume('sqs', { consumer: 'routing', ...place, on: { 'order.placed': {} } } as never)
  route(): void {}
}
@Controller()
class Api {
  @Consume('sqs', { consumer: 'billing', ...place })
  charge(): void {}
}

test.each([
  [
    'two handlers of one consumer',
    { providers: [Billing, OtherBilling] },
    'Billing.charge and OtherBilling.chargeAgain',
  ],
  [
    'a broker that the module does not have',
    { providers: [OnKafka] },
    'OnKafka.audit consumes from the broker `kafka`, which `brokers` of OncewardModule does not have. It has: sqs.',
  ],
  [
    'handlers by type, which Nest would not make',
    { providers: [Routing] },
    'Routing.route has the option `on`',
  ],
  [
    'a handler in a controller',
    { controllers: [Api] },
    'Api.charge has @Consume, but its class is a controller',
  ],
])('refuses %s at start', async (_, parts, message) => {
  @Module({ imports: [OncewardModule.forRoot({ brokers })], ...parts })
  class App {}
  const starting = OncewardTesting.module(Test.createTestingModule({ imports: [App] }))
  await expect(starting).rejects.toThrow(message)
})

test('refuses options that it does not know, and names of consumers that are not there', async () => {
  const unknown = { brokerz: {} } as OncewardModuleOptions
  expect(() => OncewardModule.forRoot(unknown)).toThrow('did you mean "brokers"?')
  const module = await OncewardTesting.module(moduleOf(Billing))
  const consumers = module.get(OncewardConsumers)
  expect(() => consumers.get('biling')).toThrow('There is no consumer `biling`. There is: billing.')
  await module.close()
})

test('trap N3: warns of a provider of a handler that ends before consumers drain', async () => {
  class Client {
    onModuleDestroy(): void {}
  }
  @Module({ providers: [Client], exports: [Client] })
  class DatabaseModule {}
  class Charging {
    readonly client: Client
    constructor(@Inject(Client) client: Client) {
      this.client = client
    }
    @Consume('sqs', { consumer: 'charging', ...place })
    charge(): void {}
  }
  const warned: unknown[][] = []
  const ignore = (): void => {}
  const logger = {
    ...{ debug: ignore, info: ignore, error: ignore },
    warn: (...given: unknown[]): void => void warned.push(given),
  }
  const onceward = OncewardModule.forRoot({ brokers, logger })
  const started = async (...imports: readonly object[]): Promise<readonly unknown[][]> => {
    warned.length = 0
    const builder = Test.createTestingModule({ imports: imports as never, providers: [Charging] })
    await (await OncewardTesting.module(builder)).close()
    return warned.slice()
  }
  expect(await started(DatabaseModule, onceward)).toEqual([])
  expect(await started(onceward, DatabaseModule)).toEqual([
    [
      { providers: ['Client of DatabaseModule'] },
      expect.stringContaining('import OncewardModule after their modules'),
    ],
  ])
})
