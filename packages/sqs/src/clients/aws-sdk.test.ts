import { getEventListeners } from 'node:events'
import { Clock } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import type { SqsApi } from '../client.ts'
import { RecordingClient } from '../fixtures/recording-client.ts'
import { createSqsApi } from './aws-sdk.ts'

const queueUrl = 'http://127.0.0.1/000000000000/orders'

/** How a call ends: the client answers, rejects, throws at once, or is silent until the limit or the stop. */
const ENDS = ['answer', 'rejection', 'exception', 'limit', 'stop'] as const

const CALLS: Readonly<Record<string, (api: SqsApi, signal: AbortSignal) => Promise<unknown>>> = {
  receive: (api, signal) => api.receive({ max: 10, waitMs: 20_000, visibilityMs: 30_000 }, signal),
  remove: (api) => api.remove(['h-1']),
  changeVisibility: (api) => api.changeVisibility([{ handle: 'h-1', seconds: 1 }]),
  send: (api) => api.send({ QueueUrl: queueUrl, MessageBody: '{}' }),
  attributes: (api) => api.attributes(queueUrl),
}

function setUp(end: (typeof ENDS)[number]) {
  const clock = new Clock()
  const stop = new AbortController()
  const signals: AbortSignal[] = []
  const client = {
    send: (_: object, { abortSignal }: { readonly abortSignal: AbortSignal }): Promise<object> => {
      signals.push(abortSignal)
      if (end === 'exception') throw new Error('no credentials')
      if (end === 'rejection') return Promise.reject(new Error('the network is down'))
      return end === 'answer' ? Promise.resolve({}) : new Promise(() => undefined)
    },
  }
  return { clock, stop, signals, api: createSqsApi(client as never, queueUrl, clock.runtime) }
}

// Red when the listener of a call stays on the signal of the consumer: Node warns of a leak at the eleventh receive.
test.each(
  Object.keys(CALLS).flatMap((call) =>
    ENDS.filter((end) => end !== 'stop' || call === 'receive').map((end) => ({ call, end })),
  ),
)('$call that ends by $end leaves no listener and no timer', async ({ call, end }) => {
  const { clock, stop, signals, api } = setUp(end)
  for (let round = 0; round < 3; round++) {
    const calling = CALLS[call]!(api, stop.signal).then(
      () => 'answered',
      () => 'failed',
    )
    await clock.advance(0)
    if (end === 'limit') await clock.advance(30_000)
    if (end === 'stop') stop.abort(new Error('draining'))
    expect(await calling).toBe(end === 'answer' ? 'answered' : 'failed')
    expect(getEventListeners(stop.signal, 'abort')).toEqual([])
    expect(clock.timers).toBe(0)
    const isAborted = end === 'limit' || end === 'stop'
    expect(signals.at(-1)?.aborted).toBe(isAborted)
  }
})

test('a receive that is stopped before it begins ends at once, with the reason of the stop', async () => {
  const { stop, api } = setUp('limit')
  const reason = new Error('draining')
  stop.abort(reason)
  await expect(CALLS['receive']!(api, stop.signal)).rejects.toBe(reason)
})

test('a call that is never answered names itself and its limit', async () => {
  const { clock, api } = setUp('limit')
  const receiving = CALLS['receive']!(api, new AbortController().signal)
  const sending = CALLS['send']!(api, new AbortController().signal)
  for (const calling of [receiving, sending]) calling.catch(() => undefined)
  await clock.advance(9_999)
  expect(clock.timers).toBe(2)
  await clock.advance(1)
  await expect(sending).rejects.toThrow(/SendMessage.*10000/)
  await clock.advance(19_999)
  expect(clock.timers).toBe(1)
  await clock.advance(1)
  await expect(receiving).rejects.toThrow(/ReceiveMessage.*30000/)
})

test('entries that SQS refuses are told with their position, their fault and their code', async () => {
  const recording = new RecordingClient()
  const Failed = [
    { Id: '2', SenderFault: true, Code: 'ReceiptHandleIsInvalid' },
    { Id: '0', SenderFault: undefined, Code: undefined },
  ]
  const refused = [
    { index: 2, senderFault: true, code: 'ReceiptHandleIsInvalid' },
    { index: 0, senderFault: false, code: 'unknown' },
  ]
  recording.answers.set('delete', () => ({ Failed }))
  recording.answers.set('change', () => ({ Failed }))
  const api = createSqsApi(recording.client, queueUrl, new Clock().runtime)
  const handles = ['h-0', 'h-1', 'h-2']
  expect(await api.remove(handles)).toEqual(refused)
  const changes = handles.map((handle, seconds) => ({ handle, seconds }))
  expect(await api.changeVisibility(changes)).toEqual(refused)
  expect(recording.deleted()).toEqual([handles])
  expect(recording.changed()).toEqual([changes.map(({ handle, seconds }) => [handle, seconds])])
})
