import type { Settlement } from '@onceward/core'
import { handMadeGuard } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { message, RecordingClient } from './fixtures/recording-client.ts'
import type { WrapSqsOptions } from './options.ts'
import { wrapSqs } from './wrap.ts'

const queueUrl = 'http://127.0.0.1/000000000000/orders'
const deadLetter = { queueUrl: `${queueUrl}-dead` }
const FAR_MS = 86_400_000

function setUp(options: Partial<WrapSqsOptions> = {}) {
  const recording = new RecordingClient()
  const made = handMadeGuard()
  const handle = wrapSqs(recording.client, made.guard, { queueUrl, deadLetter, ...options })
  const until = (afterMs: number) => (made.clock.nowMs + afterMs) as never
  return { ...made, recording, handle, until }
}

async function settled(
  kit: ReturnType<typeof setUp>,
  settlement: Settlement,
  received = message('a'),
): Promise<void> {
  const done = kit.handle([received])
  await kit.clock.advance(0)
  kit.handed[0]?.settle(settlement)
  await kit.clock.advance(5_000)
  expect(await done).toEqual([])
}

const acks = ['processed', 'duplicate', 'skipped', 'conflict', 'unguarded'] as const

test.each(acks)('ack by %s only deletes the message', async (by) => {
  const kit = setUp()
  await settled(kit, { kind: 'ack', by })
  expect(kit.recording.calls.map(({ name }) => name)).toEqual(['delete'])
  expect(kit.recording.calls[0]?.input).toEqual({
    QueueUrl: queueUrl,
    Entries: [{ Id: '0', ReceiptHandle: 'h-a' }],
  })
})

const defers = ['in-progress', 'not-due', 'failed'] as const

test.each(defers)(
  'defer for %s hides the message until its retry time, rounded up',
  async (reason) => {
    const kit = setUp()
    await settled(kit, { kind: 'defer', reason, until: kit.until(10_200) })
    // 10.2 s and a tenth of jitter (the clock's random is one half).
    expect(kit.recording.changed()).toEqual([[['h-a', 12]]])
    expect(kit.recording.calls).toHaveLength(1)
  },
)

test('a deferral into the past hides the message for one second, never for none', async () => {
  const kit = setUp()
  await settled(kit, { kind: 'defer', reason: 'not-due', until: kit.until(-FAR_MS) })
  expect(kit.recording.changed()).toEqual([[['h-a', 1]]])
})

// Red when only the guard decides the wait: five seconds of a busy event then cost four receives or more.
test.each([
  ['1', 3],
  ['2', 5],
  ['9', 5],
])(
  'a busy event with receive count %s is hidden for at least %i seconds',
  async (count, seconds) => {
    const kit = setUp()
    const received = message('a', { ApproximateReceiveCount: count })
    await settled(kit, { kind: 'defer', reason: 'in-progress', until: kit.until(1_000) }, received)
    expect(kit.recording.changed()).toEqual([[['h-a', seconds]]])
  },
)

// Red when the wait goes to SQS unchanged: SQS answers with an error and hides nothing.
test('acceptance A13: a deferral beyond twelve hours is shortened to the limit of SQS, less the age of the message', async () => {
  const kit = setUp()
  const done = kit.handle([message('a')])
  await kit.clock.advance(9_000)
  kit.handed[0]?.settle({ kind: 'defer', reason: 'failed', until: kit.until(2 * FAR_MS) })
  await kit.clock.advance(1_000)
  await done
  expect(kit.recording.changed().at(-1)).toEqual([['h-a', 43_200 - 9 - 1]])
})

test('a dead letter is sent with its reason before the original is deleted', async () => {
  const kit = setUp()
  await settled(kit, { kind: 'dead-letter', reason: 'fatal' })
  expect(kit.recording.calls.map(({ name }) => name)).toEqual(['send', 'delete'])
  expect(kit.recording.named('send')[0]?.input).toMatchObject({
    QueueUrl: deadLetter.queueUrl,
    MessageBody: '{"name":"a"}',
    MessageAttributes: {
      'Idempotency-Key': { DataType: 'String', StringValue: 'key-a' },
      'x-onceward-reason': { DataType: 'String', StringValue: 'fatal' },
      'x-onceward-error': { DataType: 'String', StringValue: 'no such order' },
    },
  })
})

test('a message whose dead letter cannot be published now comes back', async () => {
  const kit = setUp()
  kit.state.publish = 'retry'
  await settled(kit, { kind: 'dead-letter', reason: 'fatal' })
  expect(kit.recording.changed()).toEqual([[['h-a', 18]]])
  expect(kit.recording.deleted()).toEqual([])
})

test('a guard without a dead-letter queue keeps the record and deletes the message', async () => {
  const kit = setUp({ deadLetter: undefined })
  await settled(kit, { kind: 'dead-letter', reason: 'fatal' })
  expect(kit.recording.calls.map(({ name }) => name)).toEqual(['delete'])
})

const undecided = ['lease-lost', 'deadline', 'commit-unknown'] as const

test.each(undecided)('abandon for %s leaves the message alone', async (reason) => {
  const kit = setUp()
  await settled(kit, { kind: 'abandon', reason })
  expect(kit.recording.calls).toEqual([])
})

test('a group of a FIFO queue is returned from its last message to its first', async () => {
  const kit = setUp({ queueUrl: `${queueUrl}.fifo`, deadLetter: undefined })
  const names = ['1', '2', '3', '4', '5', '6', '7', '8', '9', '10', '11', '12']
  const done = kit.handle(names.map((name) => message(name, { MessageGroupId: 'g' })))
  await kit.clock.advance(0)
  for (const { settle } of kit.handed) settle({ kind: 'abandon', reason: 'closing' })
  await kit.clock.advance(1_000)
  await done
  const back = kit.recording.changed().map((batch) => batch.map(([handle]) => handle))
  expect(back[0]).toEqual(
    names
      .slice(2)
      .reverse()
      .map((name) => `h-${name}`),
  )
  expect(back[1]).toEqual(['h-2', 'h-1'])
})

test('the messages behind a failing head get the same retry time', async () => {
  const kit = setUp({ queueUrl: `${queueUrl}.fifo`, deadLetter: undefined })
  const done = kit.handle(['1', '2'].map((name) => message(name, { MessageGroupId: 'g' })))
  await kit.clock.advance(0)
  const until = kit.until(60_000)
  kit.handed[0]?.settle({ kind: 'defer', reason: 'failed', until })
  kit.handed[1]?.settle({ kind: 'defer', reason: 'not-due', until })
  await kit.clock.advance(5)
  await done
  expect(kit.recording.changed()).toEqual([
    [
      ['h-1', 60],
      ['h-2', 60],
    ],
  ])
})

// Red when only the status of the answer is checked: then there is no second call.
test('trap T21: entries that SQS refuses by its own fault are sent again, and the others are reported', async () => {
  const kit = setUp()
  let calls = 0
  kit.recording.answers.set('delete', () => {
    calls += 1
    const busy = { Id: '0', SenderFault: false, Code: 'InternalError' }
    const invalid = { Id: '1', SenderFault: true, Code: 'ReceiptHandleIsInvalid' }
    if (calls === 1) return { Failed: [busy, invalid] }
    return calls === 2 ? { Failed: [busy] } : {}
  })
  const done = kit.handle(['a', 'b', 'c'].map((name) => message(name)))
  await kit.clock.advance(0)
  for (const { settle } of kit.handed) settle({ kind: 'ack', by: 'processed' })
  await kit.clock.advance(1_000)
  await done
  expect(kit.recording.deleted()).toEqual([['h-a', 'h-b', 'h-c'], ['h-a'], ['h-a']])
  const warnings = kit.logged.filter(({ level }) => level === 'warn')
  expect(warnings.map(({ fields }) => fields)).toEqual([
    { queue: queueUrl, messageId: 'm-b', verb: 'delete', reason: 'ReceiptHandleIsInvalid' },
  ])
})

test('a refused delete is abandoned after three more tries, and a refused deferral also when its message is visible again', async () => {
  const kit = setUp()
  const busy = { Failed: [{ Id: '0', SenderFault: false, Code: 'InternalError' }] }
  kit.recording.answers.set('delete', () => busy)
  await settled(kit, { kind: 'ack', by: 'processed' })
  expect(kit.recording.deleted()).toHaveLength(4)

  const short = setUp({ visibilityMs: 1_000 })
  short.recording.answers.set('change', () => busy)
  const done = short.handle([message('a')])
  await short.clock.advance(990)
  const renewals = short.recording.changed().length
  const until = (short.clock.nowMs + 5_000) as never
  short.handed[0]?.settle({ kind: 'defer', reason: 'failed', until })
  await short.clock.advance(5_000)
  await done
  expect(short.recording.changed()).toHaveLength(renewals + 1)
})

test('a message without its attributes is a configuration error before any handler starts', async () => {
  const kit = setUp()
  const bare = { MessageId: 'm', ReceiptHandle: 'h', Body: '{}' }
  await expect(kit.handle([message('a'), bare])).rejects.toThrow(/receiveAttributes/)
  expect(kit.handed).toEqual([])
  expect(kit.recording.calls).toEqual([])
})

test('a single message, as sqs-consumer hands it to `handleMessage`, is a configuration error', async () => {
  const kit = setUp()
  await expect(kit.handle(message('a') as never)).rejects.toThrow(/handleMessageBatch/)
  expect(kit.handed).toEqual([])
})

test("dead letters are published for the guard's poller", async () => {
  const kit = setUp()
  expect([...kit.publishers.keys()]).toEqual([queueUrl])
  expect([...setUp({ deadLetter: 'redrive' }).publishers.keys()]).toEqual([])
})

test("'redrive' on a FIFO queue gives a warning at the start, once", async () => {
  const { logged } = setUp({ queueUrl: `${queueUrl}.fifo`, deadLetter: 'redrive' })
  expect(logged).toMatchObject([
    { level: 'warn', fields: { finding: expect.stringContaining('holds the later') } },
  ])
  expect(setUp({ deadLetter: 'redrive' }).logged).toEqual([])
})
