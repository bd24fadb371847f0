import { handMadeGuard } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { message, RecordingClient } from './fixtures/recording-client.ts'
import { createAccept, type Received, visibilitySeconds } from './visibility.ts'
import { wrapSqs } from './wrap.ts'

const queueUrl = 'http://127.0.0.1/000000000000/orders'
const HOUR_MS = 3_600_000

function setUp(visibilityMs = 30_000) {
  const recording = new RecordingClient()
  const made = handMadeGuard({ leaseMs: 30_000, deadlineMs: 12 * HOUR_MS - 1 })
  const handle = wrapSqs(recording.client, made.guard, { queueUrl, visibilityMs })
  return { ...made, recording, handle }
}

test('the visibility of messages in hand is renewed at a third of its length, in batches of ten', async () => {
  const { handle, clock, handed, recording } = setUp()
  const names = Array.from({ length: 12 }, (_, index) => String(index))
  const done = handle(names.map((name) => message(name)))
  await clock.advance(9_999)
  expect(recording.changed()).toEqual([])
  await clock.advance(1)
  expect(recording.changed().map((batch) => batch.length)).toEqual([10, 2])
  expect(recording.changed().flat()).toEqual(names.map((name) => [`h-${name}`, 30]))
  await clock.advance(10_000)
  expect(recording.changed()).toHaveLength(4)
  for (const { settle } of handed) settle({ kind: 'ack', by: 'processed' })
  await clock.advance(100)
  await done
  await clock.advance(HOUR_MS)
  expect(recording.changed()).toHaveLength(4)
  expect(clock.timers).toBe(0)
})

test('a message that arrived just before a renewal is renewed with the next one', async () => {
  const { handle, clock, handed, recording } = setUp()
  const done = [handle([message('a')])]
  await clock.advance(5_000)
  done.push(handle([message('b')]))
  await clock.advance(1)
  done.push(handle([message('c')]))
  await clock.advance(4_999)
  const early = [
    ['h-a', 30],
    ['h-b', 30],
  ]
  expect(recording.changed()).toEqual([early])
  await clock.advance(10_000)
  expect(recording.changed().at(-1)).toEqual([...early, ['h-c', 30]])
  for (const { settle } of handed) settle({ kind: 'ack', by: 'processed' })
  await clock.advance(100)
  await Promise.all(done)
})

// Red when the renewals are not counted: a delete that fails once would be given up at once.
test('a settlement may take as much longer as the renewals have extended the visibility', async () => {
  const { handle, clock, handed, recording } = setUp()
  const busy = { Failed: [{ Id: '0', SenderFault: false, Code: 'InternalError' }] }
  recording.answers.set('delete', () => busy)
  const done = handle([message('a')])
  await clock.advance(49_500)
  handed[0]?.settle({ kind: 'ack', by: 'processed' })
  await clock.advance(5_000)
  await done
  expect(recording.changed()).toHaveLength(4)
  expect(recording.deleted()).toHaveLength(4)
})

// Red when the settlement does not wait: the late renewal would hide the message again for V instead of until due.
test('a settlement waits for a renewal in flight', async () => {
  const { handle, clock, handed, recording } = setUp()
  const { promise, resolve } = Promise.withResolvers<unknown>()
  recording.answers.set('change', () => promise)
  const done = handle([message('a')])
  await clock.advance(10_000)
  handed[0]?.settle({ kind: 'ack', by: 'processed' })
  await clock.advance(1_000)
  expect(recording.calls.map(({ name }) => name)).toEqual(['change'])
  resolve({})
  await clock.advance(1_000)
  await done
  expect(recording.calls.map(({ name }) => name)).toEqual(['change', 'delete'])
})

test('a renewal that hangs is reported and abandoned before the next one is due', async () => {
  const { handle, clock, handed, recording, logged } = setUp()
  recording.answers.set('change', () => new Promise(() => undefined))
  const done = handle([message('a')])
  await clock.advance(19_999)
  expect(recording.named('change')).toHaveLength(1)
  await clock.advance(1)
  expect(recording.named('change')).toHaveLength(2)
  const reason = expect.stringMatching(/ChangeMessageVisibilityBatch got no answer/)
  expect(logged).toMatchObject([
    { level: 'warn', fields: { queue: queueUrl, messages: 1, reason } },
  ])
  recording.answers.set('change', () => ({}))
  await clock.advance(10_000)
  handed[0]?.settle({ kind: 'ack', by: 'processed' })
  await clock.advance(1_000)
  await done
})

test('a message whose receipt is refused is not renewed any more, and the others are', async () => {
  const { handle, clock, handed, recording, logged } = setUp()
  const gone = { Id: '0', SenderFault: true, Code: 'MessageNotInflight' }
  const busy = { Id: '2', SenderFault: false, Code: 'InternalError' }
  recording.answers.set('change', () => ({ Failed: [gone, busy] }))
  const done = handle(['a', 'b', 'c'].map((name) => message(name)))
  await clock.advance(10_000)
  recording.answers.set('change', () => ({}))
  await clock.advance(10_000)
  expect(recording.changed().at(-1)).toEqual([
    ['h-b', 30],
    ['h-c', 30],
  ])
  expect(logged).toHaveLength(1)
  expect(logged.at(-1)?.fields).toMatchObject({ messageId: 'm-a', why: 'MessageNotInflight' })
  for (const { settle } of handed) settle({ kind: 'ack', by: 'processed' })
  await clock.advance(100)
  await done
})

test.each([
  [1, 0, 1],
  [1_001, 0, 2],
  [86_400_000, 0, 43_199],
  [86_400_000, 1_500, 43_197],
  [30_000, 43_195_000, 4],
  [30_000, 43_200_000, 0],
])('a wait of %i ms for a message %i ms old is %i seconds', (wantedMs, ageMs, seconds) => {
  expect(visibilitySeconds(wantedMs, ageMs)).toBe(seconds)
})

test('messages in hand are numbered over all requests and kept hidden, unless one of them has no attributes', () => {
  const held: Received[] = []
  const ticker = { hold: (each: Received) => void held.push(each) }
  const accept = createAccept({ queueUrl, visibilityMs: 30_000 }, ticker)
  const first = accept([message('a'), { ...message('b'), ReceiptHandle: undefined }], 5)
  expect(first).toMatchObject([
    { handle: 'h-a', receivedAtMs: 5, hiddenUntilMs: 30_005, sequence: 1 },
    { handle: '', receivedAtMs: 5, hiddenUntilMs: 30_005, sequence: 2 },
  ])
  expect(accept([message('a')], 7)).toMatchObject([{ hiddenUntilMs: 30_007, sequence: 3 }])
  expect(held).toHaveLength(3)
  expect(() => accept([message('a'), { ...message('b'), Attributes: undefined }], 9)).toThrow()
  expect(held).toHaveLength(3)
})
