import { handMadeGuard } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { message, RecordingClient } from './fixtures/recording-client.ts'
import { visibilitySeconds } from './visibility.ts'
import { wrapSqs } from './wrap.ts'

const queueUrl = 'http://127.0.0.1/000000000000/orders'
const HOUR_MS = 3_600_000

function setUp(visibilityMs = 30_000) {
  const recording = new RecordingClient()
  const made = handMadeGuard({ leaseMs: 30_000, deadlineMs: 12 * HOUR_MS - 1 })
  const handle = wrapSqs(recording.client, made.guard, { queueUrl, visibilityMs })
  return { ...made, recording, handle }
}

test('messages in hand are kept hidden at a third of the visibility, in batches of ten', async () => {
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

test('a message that came just before a renewal waits for the next one', async () => {
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

test('renewals alone do not keep the process alive', async () => {
  const { handle, clock } = setUp()
  void handle([message('a')])
  expect(clock.asked).toEqual([{ delayMs: 10_000, keepAlive: false }])
})

// Red when the renewals are not counted: a delete that fails once would be given up at once.
test('what a renewal keeps hidden can be settled for as much longer', async () => {
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
test('a renewal under way has arrived before the message is settled', async () => {
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

test('a renewal that hangs is given up before the next one is due, and reported', async () => {
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

test('a message whose handle is refused is renewed no more; the others are', async () => {
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

test('renewals end where the twelve hours of SQS end', async () => {
  const { handle, clock, recording, logged } = setUp(5 * HOUR_MS)
  void handle([message('a')])
  await clock.advance(13 * HOUR_MS)
  // Every ten seconds, and never later than one second before the end.
  const wanted = Array.from({ length: 4_319 }, (_, index) =>
    Math.min(5 * 3_600, 43_199 - (index + 1) * 10),
  )
  expect(recording.changed()).toEqual(wanted.map((seconds) => [['h-a', seconds]]))
  expect(logged.at(-1)?.fields).toMatchObject({ why: 'twelve hours' })
})

test.each([
  [1, 0, 1],
  [1_001, 0, 2],
  [86_400_000, 0, 43_199],
  [86_400_000, 1_500, 43_197],
  [30_000, 43_195_000, 4],
  [30_000, 43_200_000, 0],
])('%i ms wanted of a message %i ms old are %i seconds', (wantedMs, ageMs, seconds) => {
  expect(visibilitySeconds(wantedMs, ageMs)).toBe(seconds)
})
