import { ConfigurationError, type EpochMs, type Settlement } from '@onceward/core'
import { expect, test } from 'vitest'
import { message, RecordingClient } from './fixtures/recording-client.ts'
import { type SettleSqsOptions, settleSqs } from './index.ts'

const queueUrl = 'http://127.0.0.1/000000000000/orders'
const received = { ...message('handle'), ReceiptHandle: 'handle' }

async function settled(
  settlement: Settlement,
  options: Partial<SettleSqsOptions> = {},
): Promise<unknown> {
  const recording = new RecordingClient()
  await settleSqs(recording.client, received, settlement, { queueUrl, ...options })
  const [{ input, name }] = recording.calls as [{ input: unknown; name: string }]
  const [entry] = (input as { readonly Entries: readonly object[] }).Entries
  return { name, ...entry }
}

const defer = (ms: number): Settlement => ({
  kind: 'defer',
  reason: 'not-due',
  until: (Date.now() + ms) as EpochMs,
})

test.each<[Settlement, object, object]>([
  [{ kind: 'ack', by: 'processed' }, {}, { name: 'delete', ReceiptHandle: 'handle' }],
  [{ kind: 'dead-letter', reason: 'fatal' }, {}, { name: 'change', VisibilityTimeout: 30 }],
  [{ kind: 'dead-letter', reason: 'fatal' }, { deadLetter: 'inbox' }, { name: 'delete' }],
  [{ kind: 'abandon', reason: 'closing' }, {}, { name: 'change', VisibilityTimeout: 0 }],
  [{ kind: 'abandon', reason: 'lease-lost' }, {}, { name: 'change', VisibilityTimeout: 1 }],
  [defer(-5_000), {}, { name: 'change', VisibilityTimeout: 1 }],
  [defer(86_400_000), {}, { name: 'change', VisibilityTimeout: 43_199 }],
])('%j with %j', async (settlement, options, expected) => {
  expect(await settled(settlement, options)).toMatchObject(expected)
})

test('what SQS refuses is an error, and so is an option that is not known', async () => {
  const recording = new RecordingClient()
  recording.answers.set('delete', () => ({
    Successful: [],
    Failed: [{ Id: '0', SenderFault: true, Code: 'ReceiptHandleIsInvalid' }],
  }))
  const ack: Settlement = { kind: 'ack', by: 'processed' }
  const settling = settleSqs(recording.client, received, ack, { queueUrl })
  await expect(settling).rejects.toThrow(/refused.*ReceiptHandleIsInvalid/)
  for (const options of [{ queueUrl, deadLetter: 'delete' }, { queueURL: queueUrl }, {}]) {
    const wrong = settleSqs(recording.client, received, ack, options as never)
    await expect(wrong).rejects.toThrow(ConfigurationError)
  }
})
