import { expect, test } from 'vitest'
import { BACKOFF, classifyError, missingCodecIn, rebalanceIn } from './errors.ts'
import { protocolError } from './fixtures/fetch.ts'

test.each([
  ['REBALANCE_IN_PROGRESS', 'rebalance'],
  ['UNKNOWN_MEMBER_ID', 'rebalance'],
  ['UNKNOWN_TOPIC_OR_PARTITION', 'topic-missing'],
  ['GROUP_AUTHORIZATION_FAILED', 'denied'],
  ['INVALID_SESSION_TIMEOUT', 'configuration'],
  ['GROUP_LOAD_IN_PROGRESS', 'network'],
  ['SOMETHING_NEW', 'other'],
])('the error %s is classified as %s', (type, kind) => {
  expect(classifyError(protocolError(type))).toEqual({ kind, text: `${type}: ${type}` })
})

// kafkajs hides the refusal of a broker behind this error.
test('a coordinator that no broker names may be one that the client may not ask for', () => {
  const error = Object.assign(new Error('Failed to find group coordinator'), {
    name: 'KafkaJSGroupCoordinatorNotFound',
  })
  const { kind, text } = classifyError(error)
  expect([kind, text]).toEqual([
    'network',
    expect.stringMatching(/may Read and Describe the group$/),
  ])
})

// kafkajs wraps the error of a fetch, and has no names for it.
test('topics that are denied without a name are to be looked for', () => {
  const cause = protocolError('TOPIC_AUTHORIZATION_FAILED')
  const message = 'Not authorized to access topics: [Topic authorization failed]'
  const error = Object.assign(new Error(message, { cause }), { name: 'KafkaJSNonRetriableError' })
  const { kind, text } = classifyError(error)
  expect([kind, text]).toEqual(['denied', expect.stringMatching(/check the rights.* on each/)])
})

test.each([
  ['Snappy', 'kafkajs-snappy'],
  ['LZ4', 'kafkajs-lz4'],
  ['ZSTD', '@kafkajs/zstd'],
])('a record of %s without a codec is an error that says what to install', (codec, name) => {
  const raw = Object.assign(new Error(`${codec} compression not implemented`), {
    name: 'KafkaJSNotImplemented',
  })
  for (const error of [raw, new Error('wrapped', { cause: raw })]) {
    const { kind, text } = classifyError(error)
    expect([kind, missingCodecIn(error)]).toEqual(['codec', codec])
    expect(text).toContain(name)
    expect(text).toContain(`CompressionCodecs[CompressionTypes.${codec}]`)
  }
  for (const message of ['no', `${codec} compression not implemented here`]) {
    const other = Object.assign(new Error(message), { name: 'KafkaJSNotImplemented' })
    expect([classifyError(other).kind, missingCodecIn(other)]).toEqual(['configuration', undefined])
  }
})

test('an error is classified by its cause if its wrapper says nothing', () => {
  const wrapped = Object.assign(
    new Error('gave up', { cause: protocolError('GROUP_AUTHORIZATION_FAILED') }),
    {
      name: 'KafkaJSNumberOfRetriesExceeded',
    },
  )
  expect(classifyError(wrapped)).toEqual({
    kind: 'denied',
    text: 'KafkaJSNumberOfRetriesExceeded: gave up',
  })
})

// Red when the outermost error is told: @platformatic/kafka says only that the connection failed.
test('refused credentials are told however deep they lie, with what to do', () => {
  const refused = protocolError('SASL_AUTHENTICATION_FAILED')
  const failed = new Error('Connection failed.', { cause: refused })
  const lost = Object.assign(failed, { code: 'PLT_KFK_NETWORK' })
  const tries = Object.assign(new Error('tries'), { code: 'PLT_KFK_MULTIPLE', errors: [lost] })
  for (const error of [refused, lost, tries]) {
    const { kind, text } = classifyError(error)
    expect([kind, text]).toEqual([
      'credentials',
      expect.stringMatching(/^SASL_AUTHENTICATION_FAILED.* Check the user, the password/),
    ])
  }
})

// Red when the wrapper is thrown: kafkajs sees no `type` and ends the consumer for good.
test('K6: the error that makes kafkajs rejoin is found in its wrapper, as the same object', () => {
  const raw = protocolError('UNKNOWN_MEMBER_ID')
  const wrapped = Object.assign(new Error('wrapped', { cause: raw }), { retriable: false })
  expect(rebalanceIn(wrapped)).toBe(raw)
  expect(rebalanceIn(protocolError('LEADER_NOT_AVAILABLE'))).toBeUndefined()
  expect(rebalanceIn(new TypeError('no'))).toBeUndefined()
})

// Red when the empty message is told as it is: `KafkaJSConnectionError: Connection error: `.
test('a host whose addresses all refuse is told with what failed', () => {
  const facts = { name: 'KafkaJSConnectionError', broker: 'localhost:1', code: 'ECONNREFUSED' }
  const raw = Object.assign(new Error('Connection error: '), facts)
  const wrapped = Object.assign(new Error(raw.message, { cause: raw }), { name: 'KafkaJSError' })
  expect([raw, wrapped, new Error('no: ')].map((error) => classifyError(error).text)).toEqual([
    'KafkaJSConnectionError: Connection error: ECONNREFUSED localhost:1',
    'KafkaJSError: Connection error: ECONNREFUSED localhost:1',
    'Error: no: ',
  ])
})

test.each(Object.entries(BACKOFF))('after %s a try follows within half a minute', (_, range) => {
  expect(range.baseMs).toBeGreaterThanOrEqual(100)
  expect(range.maxMs).toBeGreaterThan(range.baseMs)
  expect(range.maxMs).toBeLessThanOrEqual(30_000)
})
