import { createGuard, type Guard, type Health, StoreUnavailableError } from '@onceward/core'
import { portOf } from '@onceward/core/adapter'
import { memoryInbox, toDelivery } from '@onceward/core/memory'
import { Clock } from '@onceward/testing/adapter'
import { expect, onTestFinished, test } from 'vitest'
import { metricsText, reportOf } from './report.ts'

const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
const health = (state: Health['state']) => ({
  health: (): Health => ({ state, inFlight: 2, settleFailures: 0 }),
})

/** A guard whose store is down, closed, or well. */
async function guardThat(is: 'available' | 'down' | 'closed'): Promise<Guard> {
  const inbox =
    is === 'down'
      ? { open: () => Promise.reject(new StoreUnavailableError('down')) }
      : memoryInbox()
  const { runtime } = new Clock()
  const options = { consumer: 'billing', inbox, logger: silent, runtime }
  const guard = createGuard(options, () => undefined)
  onTestFinished(() => guard.close())
  if (is === 'closed') await guard.close()
  else await guard.process(toDelivery({}))
  return guard
}

test.each<[Health['state'], boolean, boolean]>([
  ['running', true, true],
  ['paused', true, false],
  ['recovering', true, false],
  ['draining', true, false],
  ['stopped', false, false],
])('one consumer that is %s is live: %s, and ready: %s', (state, isLive, isReady) => {
  const consumptions = [['orders', health('running')] as const, ['mail', health(state)] as const]
  expect(reportOf({ consumptions, guards: [] })).toEqual({
    ...{ isLive, isReady, guards: [] },
    consumptions: { orders: health('running').health(), mail: health(state).health() },
  })
})

test.each([
  ['available', true, []],
  ['down', false, ['inbox']],
  ['closed', false, []],
] as const)('one guard whose store is %s is ready: %s', async (store, isReady, outages) => {
  const guards = [await guardThat('available'), await guardThat(store)]
  expect(reportOf({ consumptions: [['orders', health('running')]], guards })).toMatchObject({
    ...{ isLive: true, isReady },
    guards: [
      { consumer: 'billing', store: 'available', outages: [] },
      { consumer: 'billing', store, outages },
    ],
  })
})

test('a guard that is paused is not ready, and says who paused it; its store is not down', async () => {
  const guard = await guardThat('available')
  portOf(guard).pause({ source: 'operator', by: 'ana', why: 'the bank is down' })
  const report = reportOf({ consumptions: [], guards: [guard] })
  expect(report).toMatchObject({ isLive: true, isReady: false, guards: [{ store: 'paused' }] })
  expect(report.guards[0]?.reason).toContain('paused by ana: the bank is down')
  const text = metricsText({ consumptions: [], guards: [guard] })
  expect(
    told(text)
      .slice(0, 2)
      .map((line) => line.slice(-2)),
  ).toEqual([' 0', ' 1'])
  portOf(guard).resume()
  expect(reportOf({ consumptions: [], guards: [guard] }).isReady).toBe(true)
})

const told = (text: string): readonly string[] =>
  text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))

test('the metrics tell a consumer once, and what one of its guards lacks', async () => {
  const guards = [await guardThat('down'), await guardThat('available')]
  const billing = 'messaging_consumer_group_name="billing"'
  expect(told(metricsText({ consumptions: [], guards }))).toEqual([
    `onceward_guard_breaker{${billing}} 1`,
    `onceward_guard_paused{${billing}} 0`,
    `onceward_guard_outage{${billing},onceward_dependency="inbox"} 1`,
    `onceward_guard_outage{${billing},onceward_dependency="leases"} 0`,
    `onceward_guard_outage{${billing},onceward_dependency="dead-letters"} 0`,
  ])
})
