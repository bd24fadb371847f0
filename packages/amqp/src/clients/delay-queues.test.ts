import { until } from '@onceward/testing'
import { Clock } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { PublishError } from '../errors.ts'
import { consuming } from '../fixtures/consuming.ts'
import { message } from '../fixtures/recording-channel.ts'
import { DelayQueues } from './delay-queues.ts'

const TARGET = { exchange: '', routingKey: 'orders.retry.30000', remedy: 'declare it' }
const noRoute = (): Error => PublishError.unroutable(TARGET, 'NO_ROUTE')

function setUp(areDeclared: boolean) {
  const clock = new Clock()
  const state = {
    ...{ declared: 0, looks: 0, areThere: true },
    error: undefined as Error | undefined,
    lookError: undefined as Error | undefined,
  }
  const declare = async (): Promise<void> => {
    state.declared += 1
    if (state.error !== undefined) throw state.error
  }
  const look = async (): Promise<boolean> => {
    state.looks += 1
    if (state.lookError !== undefined) throw state.lookError
    return state.areThere
  }
  const queues = new DelayQueues({ runtime: clock.runtime, declare, look, areDeclared })
  const fail = (error: Error, forMs = 10_000): void =>
    queues.failed(error, error.message, clock.runtime.monotonic() + forMs)
  return { clock, state, queues, fail }
}

// Red without the looks: a policy with `expires` deletes the queues with the messages that wait in them.
test('the delay queues are looked at once a minute while messages are deferred, and declared if one is gone', async () => {
  const { clock, state, queues } = setUp(true)
  const seen = async (): Promise<readonly number[]> => {
    await Promise.all([queues.ensure(), queues.ensure()])
    return [state.looks, state.declared]
  }
  await clock.advance(59_000)
  expect(await seen()).toEqual([0, 0])
  await clock.advance(1_000)
  expect(await seen()).toEqual([1, 0])
  await clock.advance(59_000)
  expect(await seen()).toEqual([1, 0])
  await clock.advance(1_000)
  state.areThere = false
  expect(await seen()).toEqual([2, 1])
  state.lookError = new Error('No channels left to allocate')
  await clock.advance(60_000)
  expect(await seen()).toEqual([3, 1])
})

test('health says why messages cannot be deferred until one was, or the last one has left the hand', async () => {
  const { clock, queues, fail } = setUp(true)
  fail(new PublishError('the broker blocks publishers'))
  expect(queues.outage).toBeUndefined()
  fail(noRoute())
  const reason = expect.stringMatching(/cannot be deferred and are held: .*NO_ROUTE/)
  expect(queues.outage).toEqual({ state: 'recovering', reason })
  queues.succeeded()
  expect(queues.outage).toBeUndefined()
  fail(noRoute())
  await clock.advance(11_000)
  expect(queues.outage).toBeDefined()
  await clock.advance(1_000)
  expect(queues.outage).toBeUndefined()
})

// Red when the queues are declared on a new connection only: the prefetch fills with messages that wait for ever, and
// nothing else comes.
test('a consumer whose delay queue was deleted says so, and declares it again', async () => {
  const kit = await consuming({ holdMs: 0, retryLevelsMs: [30_000] })
  const { connection, consumption, clock, handed } = kit
  const publishes = { isRouted: false }
  connection.answers.set('publish', () => {
    const channel = connection.channels.at(-1)
    const headers = connection.published().at(-1)?.options.headers
    const fields = { replyText: 'NO_ROUTE' }
    if (!publishes.isRouted)
      channel?.emit('return', { ...message('a'), fields, properties: { headers } })
    return undefined
  })
  connection.consuming.deliver('a')
  await clock.advance(0)
  const declared = connection.named('assertQueue').length
  handed[0]?.settle({ kind: 'defer', reason: 'failed', until: kit.until(20_000) })
  await until(() => consumption.health().state === 'recovering')
  expect(consumption.health()).toMatchObject({
    reason: expect.stringContaining("'orders.retry.30000' (NO_ROUTE)"),
    outages: [{ dependency: 'broker' }],
    inFlight: 1,
  })
  expect(connection.named('assertQueue')).toHaveLength(declared)

  publishes.isRouted = true
  await clock.advance(17_500)
  handed[1]?.settle({ kind: 'defer', reason: 'not-due', until: kit.until(20_000) })
  await until(() => connection.settled().length === 1)
  expect(connection.named('assertQueue')).toHaveLength(declared + 1)
  expect(connection.settled()).toEqual([['ack', 1, false]])
  expect(consumption.health()).toMatchObject({ state: 'running', inFlight: 0 })
  await consumption.drain()
})
