import { ConfigurationError } from '@onceward/core'
import { handMadeGuard } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { message, RecordingClient } from './fixtures/recording-client.ts'
import { wrapSqs } from './wrap.ts'

const queueUrl = 'http://127.0.0.1/000000000000/orders'

// Red when the guard takes the record for a place, or a place for the record: a message that it cannot hold would be lost,
// or come again for ever.
test.each([
  [undefined, false],
  [{ queueUrl: `${queueUrl}-dead` }, true],
  ['redrive', true],
] as const)('the guard is told whether dead letters have a place: %j', async (deadLetter, has) => {
  const { clock, guard, handed, hooks } = handMadeGuard()
  const handle = wrapSqs(new RecordingClient().client, guard, { queueUrl, deadLetter })
  const done = handle([message('a')])
  await clock.advance(0)
  handed[0]?.settle({ kind: 'ack', by: 'processed' })
  await clock.advance(1_000)
  await done
  expect(hooks.map(({ hasDeadLetterPlace }) => hasDeadLetterPlace)).toEqual([has])
})

test('what is no list of messages is refused in words', async () => {
  const handle = wrapSqs(new RecordingClient().client, handMadeGuard().guard, { queueUrl })
  const handling = handle(message('a') as never)
  await expect(handling).rejects.toThrow(ConfigurationError)
  await expect(handling).rejects.toThrow(/a list of messages.*`handleMessageBatch`/)
})

test('a warning names the queue', () => {
  const { guard, logged } = handMadeGuard()
  const fifo = `${queueUrl}.fifo`
  wrapSqs(new RecordingClient().client, guard, { queueUrl: fifo, deadLetter: 'redrive' })
  expect(logged.map(({ fields }) => fields['queue'])).toEqual([fifo])
})
