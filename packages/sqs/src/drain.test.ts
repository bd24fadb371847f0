import type { Message } from '@aws-sdk/client-sqs'
import type { Settlement } from '@onceward/core'
import { handMadeGuard } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { consumeSqs } from './consume.ts'
import { aborted, message, RecordingClient } from './fixtures/recording-client.ts'
import type { ConsumeSqsOptions } from './options.ts'

const queueUrl = 'http://127.0.0.1/000000000000/orders'
const ack: Settlement = { kind: 'ack', by: 'processed' }
const closing: Settlement = { kind: 'abandon', reason: 'closing' }

async function setUp(names: readonly string[], options: Partial<ConsumeSqsOptions> = {}) {
  const recording = new RecordingClient()
  const made = handMadeGuard({ concurrency: 4 })
  const receives: (Message[] | undefined)[] = [names.map((name) => message(name))]
  const signals: AbortSignal[] = []
  const poll = Promise.withResolvers<{ readonly Messages: Message[] }>()
  const endPoll = (...late: readonly string[]): void =>
    poll.resolve({ Messages: late.map((name) => message(name)) })
  const send = recording.client.send.bind(recording.client) as (...args: unknown[]) => unknown
  const client = {
    send: (command: object, sendOptions: { readonly abortSignal: AbortSignal }) => {
      signals.push(sendOptions.abortSignal)
      return send(command, sendOptions)
    },
  }
  recording.answers.set('receive', () => {
    const Messages = receives.shift()
    return Messages === undefined
      ? Promise.race([poll.promise, aborted(signals.at(-1))])
      : { Messages }
  })
  const options_ = { queueUrl, drainMs: 5_000, ...options }
  const consumption = await consumeSqs(client as never, made.guard, options_)
  await made.clock.advance(0)
  return { ...made, recording, consumption, endPoll }
}

test('a drain finishes and settles running handlers, and returns unstarted messages at once', async () => {
  const { consumption, handed, hooks, clock, recording, endPoll } = await setUp(['a', 'b', 'c'])
  const drained = consumption.drain()
  expect(consumption.health().state).toBe('draining')
  expect(hooks[0]?.stop?.aborted).toBe(true)
  expect(hooks[0]?.abort?.aborted).toBe(false)
  handed[1]?.settle(closing)
  handed[2]?.settle(closing)
  await clock.advance(100)
  expect(recording.changed()).toEqual([
    [
      ['h-b', 0],
      ['h-c', 0],
    ],
  ])
  handed[0]?.settle(ack)
  endPoll()
  await clock.advance(100)
  await drained
  await consumption.stopped
  expect(recording.deleted()).toEqual([['h-a']])
  expect(consumption.health()).toMatchObject({ state: 'stopped', inFlight: 0 })
  expect(clock.timers).toBe(0)
})

test('a drain aborts the signals of handlers that exceed the drain time', async () => {
  const { consumption, handed, hooks, clock, recording } = await setUp(['a'])
  const drained = consumption.drain()
  await clock.advance(4_999)
  expect(hooks[0]?.abort?.aborted).toBe(false)
  await clock.advance(1)
  expect(hooks[0]?.abort?.aborted).toBe(true)
  handed[0]?.settle(ack)
  await clock.advance(100)
  await drained
  expect(recording.deleted()).toEqual([['h-a']])
})

test('a drain keeps a message hidden while its handler finishes', async () => {
  const { consumption, handed, clock, recording, endPoll } = await setUp(['a'], { drainMs: 30_000 })
  const drained = consumption.drain()
  await clock.advance(25_000)
  expect(recording.changed()).toHaveLength(2)
  handed[0]?.settle(ack)
  endPoll()
  await clock.advance(100)
  await drained
})

test('trap B2: a drain returns messages at once of a receive that was in flight when it began', async () => {
  const { consumption, clock, recording, endPoll, handed } = await setUp([], { longPollMs: 20_000 })
  await clock.advance(1_000)
  const drained = consumption.drain()
  await clock.advance(100)
  expect(consumption.health().state).toBe('draining')
  endPoll('late')
  await clock.advance(100)
  await drained
  expect(recording.changed()).toEqual([[['h-late', 0]]])
  expect([handed, recording.named('receive').length]).toEqual([[], 2])
})

test('aborting the signal drains, and all drains share one promise', async () => {
  const stop = new AbortController()
  const { consumption, clock, publishers } = await setUp([], {
    signal: stop.signal,
    deadLetter: { queueUrl: `${queueUrl}-dead` },
  })
  expect(publishers.size).toBe(1)
  stop.abort()
  expect(consumption.health().state).toBe('draining')
  expect(consumption.drain()).toBe(consumption.drain())
  await clock.advance(0)
  await consumption.stopped
  await consumption[Symbol.asyncDispose]()
  expect(publishers.size).toBe(0)
  expect(clock.timers).toBe(0)
})
