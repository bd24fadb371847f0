import {
  KmsAccessDenied,
  QueueDoesNotExist,
  ReceiptHandleIsInvalid,
  ReceiveMessageCommand,
  RequestThrottled,
  SQSClient,
  type SQSClientConfig,
} from '@aws-sdk/client-sqs'
import { CallTimeoutError } from '@onceward/core/adapter'
import { refusedByBothAddresses } from '@onceward/testing/adapter'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { classifyError, regionMissing } from './errors.ts'

const named = (name: string): Error => Object.assign(new Error('text'), { name })
const coded = (code: string): Error => Object.assign(new Error('text'), { code })
const facts = { message: 'text', $metadata: {} }

test.each([
  [new QueueDoesNotExist(facts), 'queue-missing'],
  [named('AWS.SimpleQueueService.NonExistentQueue'), 'queue-missing'],
  [new RequestThrottled(facts), 'throttled'],
  [named('ThrottlingException'), 'throttled'],
  [new KmsAccessDenied(facts), 'denied'],
  [named('AccessDenied'), 'denied'],
  [named('ExpiredTokenException'), 'credentials'],
  [named('CredentialsProviderError'), 'credentials'],
  [new ReceiptHandleIsInvalid(facts), 'handle'],
  [coded('ECONNREFUSED'), 'network'],
  [Object.assign(new AggregateError([]), { code: 'ECONNREFUSED' }), 'network'],
  [new CallTimeoutError('ReceiveMessage', 5), 'network'],
  [new DOMException('aborted', 'AbortError'), 'network'],
  [named('MessageTooLong'), 'too-large'],
  [named('AWS.SimpleQueueService.InvalidParameterValue'), 'too-large'],
  [named('Constructor'), 'other'],
  [named('__proto__'), 'other'],
  ['a string', 'other'],
  [undefined, 'other'],
  [null, 'other'],
  [{ name: 5 }, 'other'],
])('the error %s is classified as %s', (error, kind) => {
  expect(classifyError(error).kind).toBe(kind)
})

// Red when only the message of the error itself is told, which is empty: health() then says `AggregateError: `.
test('a host whose addresses all refuse is told with what failed', () => {
  expect(classifyError(refusedByBothAddresses())).toEqual({
    kind: 'network',
    text: 'AggregateError: connect ECONNREFUSED 127.0.0.1:1, connect ECONNREFUSED ::1:1',
  })
})

// Red when another version of the SDK says it in another way: the consumer would then try again for ever.
describe('a client without a region', () => {
  afterEach(() => void vi.unstubAllEnvs())

  test.each<[string, SQSClientConfig]>([
    ['none', {}],
    ['no name of one', { region: 'eu west' }],
    ['a function that answers none', { region: async () => undefined as never }],
  ])('is told apart by the error of its calls: %s', async (_what, config) => {
    for (const name of ['AWS_REGION', 'AWS_DEFAULT_REGION', 'AWS_PROFILE']) {
      vi.stubEnv(name, undefined)
    }
    vi.stubEnv('AWS_CONFIG_FILE', '/nonexistent')
    vi.stubEnv('AWS_SHARED_CREDENTIALS_FILE', '/nonexistent')
    const credentials = { accessKeyId: 'test', secretAccessKey: 'test' }
    const client = new SQSClient({ credentials, maxAttempts: 1, ...config })
    const asked = client.send(
      new ReceiveMessageCommand({ QueueUrl: 'http://127.0.0.1:1/1/orders' }),
    )
    const error = await asked.catch((thrown: unknown) => thrown)
    client.destroy()
    expect(regionMissing(error)).toMatchObject({
      code: 'ONCEWARD_CONFIGURATION',
      message: expect.stringMatching(/AWS_REGION/),
      cause: error,
    })
  })

  test.each([
    new Error('The queue of region x is missing'),
    Object.assign(new Error('Region is missing'), { name: 'CredentialsProviderError' }),
    undefined,
    null,
  ])('is not what another error says (%#)', (error) => {
    expect(regionMissing(error)).toBeUndefined()
  })
})

test.each([
  [429, 'throttled'],
  [499, 'other'],
  [500, 'network'],
])('an answer with HTTP status %i and no known name is %s', (httpStatusCode, kind) => {
  const error = Object.assign(new Error('no XML'), { $metadata: { httpStatusCode } })
  expect(classifyError(error).kind).toBe(kind)
})

test('the code of the query protocol tells what an error without a known name means', () => {
  const error = Object.assign(new Error('gone'), {
    Code: 'AWS.SimpleQueueService.NonExistentQueue',
  })
  expect(classifyError(error).kind).toBe('queue-missing')
})
