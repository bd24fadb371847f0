import type { Availability } from '@onceward/core/adapter'
import { type HandMadeGuard, handMadeGuard } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import type { StreamApi } from './client.ts'
import { createAccept } from './delivery.ts'
import { createDispatcher } from './dispatch.ts'
import { entryOf, RecordingApi } from './fixtures/recording-api.ts'
import { resolveSettings } from './options.ts'
import { Receiver } from './receive.ts'
import { createSettleContext } from './settle.ts'

/** A consumer of a stream for which the test plays Redis. */
async function consuming(
  over: (clock: HandMadeGuard['clock']) => Partial<StreamApi>,
  availability: Availability = { kind: 'down', retryAt: 0 as never, error: new Error('store') },
) {
  const made = handMadeGuard({ concurrency: 4 })
  const { port } = made
  const redis = new RecordingApi()
  const api = { ...redis.api, ...over(made.clock) }
  const settings = resolveSettings({ stream: 'orders' }, port.settings)
  const context = createSettleContext(port, api, settings)
  const nothing = async (): Promise<void> => undefined
  const [stop, abort] = [new AbortController(), new AbortController()]
  made.state.availability = availability
  const dispatcher = createDispatcher({
    ...{ port, settings, context, check: nothing },
    signals: { stop: stop.signal, abort: abort.signal, onEnd: () => undefined },
    source: new Receiver({
      ...{ port, api, settings, restore: nothing },
      accept: createAccept(settings, context.owned),
    }),
  })
  await dispatcher.start()
  return { ...made, dispatcher, redis }
}

// Red before: only new entries asked, and a quiet stream has none.
test('a store that is down is asked by a parked entry if no new one comes', async () => {
  let parked = [{ ...entryOf(1), deliveryCount: 2 }]
  const claim: StreamApi['claim'] = async () => {
    const entries = parked
    parked = []
    return { cursor: '0-0', entries, gone: [] }
  }
  const { dispatcher, handed, clock, state } = await consuming(({ runtime }) => ({
    claim,
    // Redis answers after a second that there is nothing.
    read: () => new Promise((answer) => void runtime.setTimer(() => answer([]), 1_000)),
  }))
  for (let second = 0; second < 5; second += 1) await clock.advance(1_000)
  expect(handed).toHaveLength(1)
  state.availability = { kind: 'available' }
  handed[0]?.settle({ kind: 'ack', by: 'processed' })
  await clock.advance(10)
  expect(dispatcher.outage).toBeUndefined()
  dispatcher.stop()
})

test('receives under way when the loop is stopped end, and what they bring is given back', async () => {
  const answered = Promise.withResolvers<readonly ReturnType<typeof entryOf>[]>()
  const { dispatcher, redis, handed } = await consuming(() => ({ read: () => answered.promise }), {
    kind: 'available',
  })
  dispatcher.stop()
  answered.resolve([entryOf(1)])
  await dispatcher.ended()
  expect([redis.calls.at(-1), handed]).toEqual([['giveBack', ['1-0']], []])
})
