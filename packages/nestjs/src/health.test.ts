import 'reflect-metadata'
import { HealthCheckService, TerminusModule } from '@nestjs/terminus'
import { Test } from '@nestjs/testing'
import type { Consumption, Health } from '@onceward/core'
import { memoryInbox } from '@onceward/core/memory'
import { expect, onTestFinished, test } from 'vitest'
import { type Broker, Consume, OncewardHealth, OncewardModule } from './index.ts'

/** A broker whose consumption is as the test says. */
const inState = (health: Partial<Health>): Broker =>
  ({
    consume: async () =>
      ({
        stopped: new Promise(() => undefined),
        health: () => ({ state: 'running', inFlight: 0, settleFailures: 0, ...health }),
        drain: async () => undefined,
        [Symbol.asyncDispose]: async () => undefined,
      }) satisfies Consumption,
  }) as Broker<object> as unknown as Broker

/** What terminus answers to the platform. */
async function checked(health: Partial<Health>): Promise<unknown> {
  class Billing {
    @Consume('any', { consumer: 'billing', queue: 'orders' })
    charge(): void {}
  }
  const brokers = { any: inState(health) }
  const module = await Test.createTestingModule({
    imports: [
      TerminusModule.forRoot({ logger: false }),
      OncewardModule.forRoot({ brokers, inbox: memoryInbox() }),
    ],
    providers: [Billing],
  }).compile()
  await module.init()
  onTestFinished(() => module.close())
  const onceward = module.get(OncewardHealth)
  const asked = module.get(HealthCheckService).check([() => onceward.check('onceward')])
  return asked.catch((error: { getStatus(): number; getResponse(): object }) => ({
    ...{ code: error.getStatus() },
    ...error.getResponse(),
  }))
}

const outages = { broker: { since: new Date(), reason: 'no connection' } } as never

test.each([
  ['runs', { state: 'running' }, 'up', false],
  ['waits for its broker', { state: 'running', outages }, 'up', true],
  ['is connecting again', { state: 'recovering' }, 'up', true],
] as const)(
  'a service whose consumer %s is up for terminus',
  async (_, health, status, degraded) => {
    const { state } = health
    expect(await checked(health as Partial<Health>)).toMatchObject({
      status: 'ok',
      details: { onceward: { status, degraded, consumers: { billing: { state } } } },
    })
  },
)

test('a service whose consumer can never go on is down for terminus, so that the platform starts it again', async () => {
  expect(await checked({ state: 'stopped', reason: 'the queue is gone' })).toMatchObject({
    ...{ code: 503, status: 'error' },
    error: {
      onceward: {
        status: 'down',
        consumers: { billing: { state: 'stopped', reason: 'the queue is gone' } },
      },
    },
  })
})
