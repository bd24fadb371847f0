import { inspect } from 'node:util'
import { Clock } from '@onceward/testing/adapter'
import { describe, expect, test } from 'vitest'
import type { RefusedEntry, SqsApi } from '../client.ts'
import { classifyError } from '../errors.ts'
import { RecordingClient } from '../fixtures/recording-client.ts'
import { createSqsApi, refuseOtherSqsClient } from './aws-sdk.ts'

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
      return end === 'answer' ? Promise.resolve({ MessageId: 'm' }) : new Promise(() => undefined)
    },
  }
  return { clock, stop, signals, api: createSqsApi(client as never, queueUrl, clock.runtime) }
}

test('a receive that is stopped before it begins ends at once, with the reason of the stop', async () => {
  const { stop, api } = setUp('limit')
  const reason = new Error('draining')
  stop.abort(reason)
  await expect(CALLS['receive']!(api, stop.signal)).rejects.toBe(reason)
})

test.each([
  ['receive', 'ReceiveMessage', 30_000],
  ['remove', 'DeleteMessageBatch', 10_000],
  ['changeVisibility', 'ChangeMessageVisibilityBatch', 10_000],
  ['send', 'SendMessage', 10_000],
  ['attributes', 'GetQueueAttributes', 10_000],
])('%s that is never answered names itself and its limit', async (call, name, limitMs) => {
  const { clock, api } = setUp('limit')
  const calling = CALLS[call]!(api, new AbortController().signal)
  const ended = expect(calling).rejects.toThrow(new RegExp(`${name} .*${limitMs}`))
  await clock.advance(limitMs - 1)
  expect(clock.timers).toBe(1)
  await clock.advance(1)
  await ended
})

const calls = {
  delete: (api: SqsApi, handles: readonly string[]) => api.remove(handles),
  change: (api: SqsApi, handles: readonly string[]) =>
    api.changeVisibility(handles.map((handle, seconds) => ({ handle, seconds }))),
} as const

describe.each(['delete', 'change'] as const)('the answer to a %s', (name) => {
  const refusedBy = (answer: object): Promise<readonly RefusedEntry[]> => {
    const recording = new RecordingClient()
    recording.answers.set(name, () => answer)
    return calls[name](createSqsApi(recording.client, queueUrl, new Clock().runtime), [
      ...['h-0', 'h-1', 'h-2'],
    ])
  }

  test('tells the entries that SQS refuses with their position, their fault and their code', async () => {
    const Failed = [
      { Id: '2', SenderFault: true, Code: 'ReceiptHandleIsInvalid' },
      { Id: '0', SenderFault: undefined, Code: undefined },
    ]
    expect(await refusedBy({ Failed, Successful: [{ Id: '1' }] })).toEqual([
      { index: 0, senderFault: false, code: 'unknown' },
      { index: 2, senderFault: true, code: 'ReceiptHandleIsInvalid' },
    ])
  })

  // Red when what is not refused counts as done.
  test('with a list of successes takes no other entry for done', async () => {
    const notNamed = (index: number) => ({
      ...{ index, senderFault: false, code: 'the answer does not name this entry' },
    })
    const all = [0, 1, 2].map(notNamed)
    expect(await refusedBy({ Failed: undefined, Successful: undefined })).toEqual([])
    expect(await refusedBy({ Failed: [], Successful: [] })).toEqual(all)
    const strange = { Id: '7', SenderFault: true, Code: 'InternalError' }
    expect(await refusedBy({ Failed: [strange], Successful: [{ Id: '1' }, { Id: '' }] })).toEqual([
      ...[notNamed(0), notNamed(2)],
    ])
  })
})

test('a batch request has each handle with its time', async () => {
  const recording = new RecordingClient()
  const api = createSqsApi(recording.client, queueUrl, new Clock().runtime)
  const handles = ['h-0', 'h-1', 'h-2']
  const changes = handles.map((handle, seconds) => ({ handle, seconds }))
  expect(await api.remove(handles)).toEqual([])
  expect(await api.changeVisibility(changes)).toEqual([])
  expect(recording.deleted()).toEqual([handles])
  expect(recording.changed()).toEqual([changes.map(({ handle, seconds }) => [handle, seconds])])
})

// Red when any answer is a success: without an inbox the only copy of a dead event is deleted next.
test('a message is sent only when the answer names it', async () => {
  const recording = new RecordingClient()
  recording.answers.set('send', () => ({ MessageId: undefined }))
  const api = createSqsApi(recording.client, queueUrl, new Clock().runtime)
  const sending = api.send({ QueueUrl: queueUrl, MessageBody: '{}' })
  await expect(sending).rejects.toThrow(/without a MessageId.*Check for a proxy/)
})

test('each call says all that SQS must know', async () => {
  const recording = new RecordingClient()
  recording.answers.set('receive', () => ({ Messages: [{ MessageId: 'm-1' }] }))
  recording.answers.set('attributes', () => ({ Attributes: { FifoQueue: 'true' } }))
  const api = createSqsApi(recording.client, queueUrl, new Clock().runtime)
  const { signal } = new AbortController()
  const request = { max: 7, waitMs: 1_500, visibilityMs: 33_000 }
  expect(await api.receive(request, signal)).toEqual([{ MessageId: 'm-1' }])
  expect(await api.attributes(`${queueUrl}-dead`)).toEqual({ FifoQueue: 'true' })
  await api.send({ QueueUrl: `${queueUrl}-dead`, MessageBody: '{}' })
  await api.remove(['h-1'])
  await api.changeVisibility([{ handle: 'h-1', seconds: 4 }])
  expect(recording.calls).toEqual([
    {
      name: 'receive',
      input: {
        ...{ QueueUrl: queueUrl, MaxNumberOfMessages: 7 },
        ...{ WaitTimeSeconds: 2, VisibilityTimeout: 33 },
        ...{ MessageSystemAttributeNames: ['All'], MessageAttributeNames: ['All'] },
      },
    },
    { name: 'attributes', input: { QueueUrl: `${queueUrl}-dead`, AttributeNames: ['All'] } },
    { name: 'send', input: { QueueUrl: `${queueUrl}-dead`, MessageBody: '{}' } },
    {
      name: 'delete',
      input: { QueueUrl: queueUrl, Entries: [{ Id: '0', ReceiptHandle: 'h-1' }] },
    },
    {
      name: 'change',
      input: {
        QueueUrl: queueUrl,
        Entries: [{ Id: '0', ReceiptHandle: 'h-1', VisibilityTimeout: 4 }],
      },
    },
  ])
})

test('an unfit client is refused, and a client of version 3 is not', () => {
  const { client } = new RecordingClient()
  expect(() => refuseOtherSqsClient('wrapSqs', client)).not.toThrow()
  expect(() => refuseOtherSqsClient('wrapSqs', { receiveMessage: () => undefined })).toThrow(
    /wrapSqs to get a client of @aws-sdk\/client-sqs/,
  )
})

// Red when the text of SQS is told as it is: the session token is in the logs, and on the page of the health check.
test('a request that SQS quotes because of its signature is told without the quotation', async () => {
  const quoted = `The request signature we calculated does not match.

The Canonical String for this request should have been
'POST
/

x-amz-security-token:IQoJb3JpZ2luX2VjE'

The String-to-Sign should have been
'AWS4-HMAC-SHA256'
`
  const $metadata = { httpStatusCode: 403 }
  const refusal = Object.assign(new Error(quoted), { name: 'SignatureDoesNotMatch', $metadata })
  const client = { send: () => Promise.reject(refusal) } as never
  const api = createSqsApi(client, queueUrl, new Clock().runtime)
  for (const call of Object.values(CALLS)) {
    const error: unknown = await call(api, new AbortController().signal).catch((told) => told)
    expect(inspect(error, { showHidden: true })).not.toContain('IQoJ')
    const text = 'SignatureDoesNotMatch: The request signature we calculated does not match.'
    expect(classifyError(error)).toEqual({ kind: 'credentials', text })
  }
})
