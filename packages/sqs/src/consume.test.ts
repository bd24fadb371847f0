import type { Message } from '@aws-sdk/client-sqs'
import { ConfigurationError, type Settlement, StoreUnavailableError } from '@onceward/core'
import type { GuardSettings } from '@onceward/core/adapter'
import { type HandMadeGuard, handMadeGuard } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { consumeSqs } from './consume.ts'
import { message, RecordingClient } from './fixtures/recording-client.ts'
import type { ConsumeSqsOptions } from './options.ts'

const queueUrl = 'http://127.0.0.1/000000000000/orders'
const ack: Settlement = { kind: 'ack', by: 'processed' }

interface Kit extends HandMadeGuard {
  readonly recording: RecordingClient
  /** Messages that the queue has. */
  readonly queue: Message[]
  readonly broken: { error: unknown }
  start(options?: Partial<ConsumeSqsOptions>): ReturnType<typeof consumeSqs>
  /** `MaxNumberOfMessages` of the receives so far. */
  asked(): readonly unknown[]
}

/** A queue that answers when it has messages, or throws the error of the test. */
function setUp(settings: Partial<GuardSettings> = {}): Kit {
  const recording = new RecordingClient()
  const made = handMadeGuard(settings)
  const queue: Message[] = []
  const broken: { error: unknown } = { error: undefined }
  recording.answers.set('receive', async (input) => {
    if (broken.error !== undefined) throw broken.error
    if (queue.length > 0) return { Messages: queue.splice(0, Number(input['MaxNumberOfMessages'])) }
    const waitMs = Number(input['WaitTimeSeconds']) * 1_000
    await new Promise<void>((resolve) => void made.clock.runtime.setTimer(resolve, waitMs))
    return {}
  })
  const start = async (options: Partial<ConsumeSqsOptions> = {}) => {
    const consumption = await consumeSqs(recording.client, made.guard, { queueUrl, ...options })
    await made.clock.advance(0)
    return consumption
  }
  const asked = () => recording.named('receive').map(({ input }) => input['MaxNumberOfMessages'])
  return { ...made, recording, queue, broken, start, asked }
}

function messages(count: number, system: Message['Attributes'] = {}): Message[] {
  return Array.from({ length: count }, (_, index) => message(String(index), system))
}

const failure = (name: string): Error => Object.assign(new Error('text'), { name })

test('the consumer checks the queue, then receives as many messages as it needs, with its visibility timeout', async () => {
  const kit = setUp()
  await kit.start()
  expect(kit.recording.calls.map(({ name }) => name)).toEqual(['attributes', 'receive'])
  expect(kit.recording.calls[1]?.input).toEqual({
    QueueUrl: queueUrl,
    MaxNumberOfMessages: 2,
    WaitTimeSeconds: 20,
    VisibilityTimeout: 33,
    MessageSystemAttributeNames: ['All'],
    MessageAttributeNames: ['All'],
  })
})

test('the consumer receives no more messages than handlers can start while none has finished', async () => {
  const kit = setUp()
  kit.queue.push(...messages(50))
  const consumption = await kit.start()
  await kit.clock.advance(60_000)
  expect(kit.asked()).toEqual([2])
  expect(kit.handed).toHaveLength(2)
  expect(consumption.health()).toMatchObject({ state: 'running', inFlight: 2 })
  kit.handed[0]?.settle(ack)
  await kit.clock.advance(10)
  // A handler that takes a minute: nothing is prefetched.
  expect(kit.asked()).toEqual([2, 1])
})

test('quick handlers get several receives of ten in flight, and an empty queue gets one receive', async () => {
  const kit = setUp({ concurrency: 40 })
  kit.state.decide = () => ack
  kit.queue.push(...messages(1_000))
  let inFlight = 0
  let most = 0
  kit.recording.answers.set('receive', async (input) => {
    inFlight += 1
    most = Math.max(most, inFlight)
    const isEmpty = kit.queue.length === 0
    const waitMs = isEmpty ? Number(input['WaitTimeSeconds']) * 1_000 : 10
    await new Promise<void>((resolve) => void kit.clock.runtime.setTimer(resolve, waitMs))
    inFlight -= 1
    return { Messages: kit.queue.splice(0, Number(input['MaxNumberOfMessages'])) }
  })
  await kit.start()
  await kit.clock.advance(5_000)
  expect(kit.handed).toHaveLength(1_000)
  expect(new Set(kit.asked())).toEqual(new Set([10]))
  expect(most).toBeGreaterThanOrEqual(4)
  await kit.clock.advance(100_000)
  expect(inFlight).toBe(1)
})

// Red when each message restarts the linger time: nothing would run while messages keep arriving.
test('trap T37: the linger time of a batch starts with its first message', async () => {
  const kit = setUp({ transaction: 'batch', concurrency: 4 })
  let received = 0
  kit.recording.answers.set('receive', async () => {
    await new Promise<void>((resolve) => void kit.clock.runtime.setTimer(resolve, 10))
    received += 1
    return { Messages: [message(String(received))] }
  })
  await kit.start({ batch: { size: 100, lingerMs: 50 } })
  await kit.clock.advance(70)
  expect(kit.batches).toHaveLength(1)
  expect(kit.batches[0]).toBeLessThan(received)
})

test('a group of a FIFO queue is never split between two calls of the guard', async () => {
  const kit = setUp({ transaction: 'batch', concurrency: 4 })
  const receives = ['a', 'b'].map((group) => messages(6, { MessageGroupId: group }))
  kit.recording.answers.set('receive', () => {
    if (receives.length === 1) kit.recording.answers.delete('receive')
    return { Messages: receives.shift() }
  })
  await kit.start({ queueUrl: `${queueUrl}.fifo`, batch: { size: 10, lingerMs: 10 } })
  await kit.clock.advance(100)
  const groups = kit.handed.map(({ delivery }) => delivery.orderingKey)
  expect(kit.batches).toEqual([6, 6])
  expect(groups.join('')).toBe('aaaaaabbbbbb')
})

// Red when an error of the receive leaves the loop: nothing is received afterwards.
test.each([
  ['ThrottlingException', 'ThrottlingException: text'],
  ['ExpiredTokenException', 'ExpiredTokenException: text'],
  ['QueueDoesNotExist', 'QueueDoesNotExist: text'],
  ['TypeError', 'TypeError: text'],
])(
  'trap T16: the consumer recovers from %s on a receive, and health reports it',
  async (name, reason) => {
    const kit = setUp()
    kit.state.decide = () => ack
    const consumption = await kit.start()
    kit.broken.error = failure(name)
    await kit.clock.advance(200_000)
    expect(consumption.health()).toMatchObject({ state: 'recovering', reason })
    const tries = kit.asked().length
    expect(tries).toBeGreaterThan(5)
    expect(tries).toBeLessThan(150)
    kit.broken.error = undefined
    kit.queue.push(message('a'))
    await kit.clock.advance(31_000)
    expect(consumption.health().state).toBe('running')
    expect(kit.recording.deleted()).toEqual([['h-a']])
    const warnings = kit.logged.filter(
      ({ text }) => text === 'the consumer receives nothing now and tries again by itself',
    )
    expect(warnings).toHaveLength(1)
  },
)

test('a receive that never answers is abandoned after its long poll', async () => {
  const kit = setUp()
  const consumption = await kit.start()
  kit.recording.answers.set('receive', () => new Promise(() => undefined))
  await kit.clock.advance(60_000)
  expect(consumption.health().reason).toMatch(/ReceiveMessage got no answer/)
})

test('the start fails with the name of a queue that does not exist', async () => {
  const kit = setUp()
  kit.recording.answers.set('attributes', () => {
    throw failure('QueueDoesNotExist')
  })
  await expect(kit.start()).rejects.toThrow(new RegExp(`${queueUrl}, does not exist`))
  expect(kit.clock.timers).toBe(0)
  expect(kit.publishers.size).toBe(0)
})

test('the start fails if the client has no region', async () => {
  const kit = setUp()
  kit.recording.answers.set('attributes', () => {
    throw new Error('Region is missing')
  })
  await expect(kit.start()).rejects.toMatchObject({
    code: 'ONCEWARD_CONFIGURATION',
    message: expect.stringContaining('AWS_REGION'),
  })
  expect(kit.clock.timers).toBe(0)
})

test('the consumer waits for a store that is down at the start, and stops if the tables do not fit', async () => {
  const kit = setUp()
  kit.state.open = () => Promise.reject(new StoreUnavailableError('no connection'))
  const consumption = await kit.start()
  expect(consumption.health()).toMatchObject({ state: 'paused' })
  const ended = expect(consumption.stopped).rejects.toThrow('too new')
  kit.state.open = () => Promise.reject(new ConfigurationError('too new'))
  await kit.clock.advance(60_000)
  await ended
  expect(consumption.health()).toMatchObject({ state: 'stopped' })
  expect(kit.asked()).toEqual([])
})

test('invalid options and unusable stores make the start fail', async () => {
  const kit = setUp({ hasInbox: false })
  await expect(kit.start()).rejects.toThrow(/deadLetter/)
  const other = setUp()
  other.state.open = () => Promise.reject(new ConfigurationError('no tables'))
  await expect(other.start()).rejects.toThrow('no tables')
})

test('messages without attributes stop the consumer with an error that names the attributes to request', async () => {
  const kit = setUp()
  kit.queue.push({ MessageId: 'm', ReceiptHandle: 'h', Body: '{}' })
  const consumption = await consumeSqs(kit.recording.client, kit.guard, { queueUrl })
  await expect(consumption.stopped).rejects.toThrow(/receiveAttributes/)
  expect(kit.handed).toEqual([])
})
