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

type Reason = Extract<Settlement, { kind: 'defer' }>['reason']

const defer = (ms: number, reason: Reason = 'not-due'): Settlement => ({
  ...{ kind: 'defer', reason, until: (Date.now() + ms) as EpochMs },
})

const isBetween = (least: number, most: number): unknown =>
  expect.toSatisfy((seconds: number) => seconds >= least && seconds <= most)

test.each<[Settlement, object, object]>([
  [{ kind: 'ack', by: 'processed' }, {}, { name: 'delete', ReceiptHandle: 'handle' }],
  [
    { kind: 'dead-letter', reason: 'fatal' },
    {},
    { name: 'change', VisibilityTimeout: isBetween(5, 30) },
  ],
  [{ kind: 'dead-letter', reason: 'fatal' }, { deadLetter: 'inbox' }, { name: 'delete' }],
  [{ kind: 'abandon', reason: 'closing' }, {}, { name: 'change', VisibilityTimeout: 0 }],
  // Red when it returns after a second: the store that did not answer a COMMIT is often still down.
  [{ kind: 'abandon', reason: 'commit-unknown' }, {}, { name: 'change', VisibilityTimeout: 30 }],
  // Red when it returns when the guard would ask again: an outage of minutes spends `maxReceiveCount`.
  [defer(1_000, 'store-down'), {}, { name: 'change', VisibilityTimeout: isBetween(30, 120) }],
  [defer(300_000, 'store-down'), {}, { name: 'change', VisibilityTimeout: isBetween(299, 301) }],
  [defer(0, 'in-progress'), {}, { name: 'change', VisibilityTimeout: isBetween(2, 5) }],
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
