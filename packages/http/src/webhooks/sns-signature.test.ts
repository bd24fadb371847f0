import { ConfigurationError, type EpochMs, unwrapSns } from '@onceward/core'
import { memoryInbox } from '@onceward/core/memory'
import { systemRuntime } from '@onceward/core/ports'
import { describe, expect, test } from 'vitest'
import {
  CERTIFICATE_URL,
  ISSUER,
  LEAF,
  OTHER_ISSUER,
  snsBody,
  TOPIC,
  VALID_MS,
} from '../fixtures/sns.ts'
import {
  cloudEventId,
  createWebhookGuard,
  type SnsSignatureOptions,
  snsSignature,
} from './index.ts'

const SUBSCRIBE_URL = 'https://sns.eu-central-1.amazonaws.com/?Action=ConfirmSubscription&Token=t'
const confirmation = { Type: 'SubscriptionConfirmation', SubscribeURL: SUBSCRIBE_URL, Token: 't' }

function setUp(
  options: SnsSignatureOptions = { topicArn: TOPIC },
  answer: (url: string) => Response | Promise<Response> = () => new Response(LEAF),
) {
  const asked: string[] = []
  const seen: unknown[] = []
  const lines: unknown[][] = []
  const log = (...line: unknown[]): void => void lines.push(line)
  const fetch: SnsSignatureOptions['fetch'] = async (url) => {
    asked.push(url)
    return answer(url)
  }
  const clock = { nowMs: VALID_MS }
  const guard = createWebhookGuard(
    {
      ...{ consumer: 'orders', inbox: memoryInbox(), decode: unwrapSns() },
      verify: snsSignature({ fetch, ...options }),
      logger: { debug: log, info: log, warn: log, error: log },
      runtime: { ...systemRuntime, now: () => clock.nowMs as EpochMs },
    },
    ({ key, payload }) => void seen.push([key, payload]),
  )
  const post = async (body: string): Promise<number> => {
    const headers = { 'content-type': 'text/plain; charset=UTF-8' }
    const request = new Request('http://a/sns', { method: 'POST', headers, body })
    return (await guard.fetch(request)).status
  }
  return { asked, clock, lines, post, seen }
}

test.each(['1', '2'])('a message with signature version %s runs once', async (SignatureVersion) => {
  const { asked, post, seen } = setUp()
  expect(await post(snsBody({ SignatureVersion, Subject: 'of the order' }))).toBe(200)
  expect(await post(snsBody({ SignatureVersion, Subject: 'of the order' }))).toBe(200)
  expect(seen).toEqual([['sns-1', { orderId: 'o-1' }]])
  // The certificate is kept.
  expect(asked).toEqual([CERTIFICATE_URL])
})

test('the body is JSON without a decoder too, although SNS says text/plain', async () => {
  const payloads: unknown[] = []
  const guard = createWebhookGuard(
    {
      ...{ consumer: 'orders', inbox: memoryInbox() },
      verify: snsSignature({ topicArn: TOPIC, fetch: async () => new Response(LEAF) }),
      runtime: { ...systemRuntime, now: () => VALID_MS as EpochMs },
    },
    ({ payload }) => void payloads.push(payload),
  )
  const headers = { 'content-type': 'text/plain; charset=UTF-8' }
  const request = new Request('http://a', { method: 'POST', headers, body: snsBody() })
  expect((await guard.fetch(request)).status).toBe(200)
  expect(payloads).toMatchObject([{ Type: 'Notification', MessageId: 'sns-1' }])
})

describe('refused with 401, and nothing is fetched:', () => {
  const bucket = 'https://evil.s3.amazonaws.com/a.pem'
  test.each<[string, string]>([
    ['another topic', snsBody({ TopicArn: `${TOPIC}-of-another` })],
    ['no JSON', 'hello'],
    ['null', 'null'],
    ['no signature', snsBody({}, { Signature: undefined })],
    ['another type', snsBody({ Type: 'Order' })],
    ['an unknown version', snsBody({ SignatureVersion: '3' })],
    ['a version of the prototype', snsBody({ SignatureVersion: 'toString' })],
    ...[
      CERTIFICATE_URL.replace('https', 'http'),
      bucket,
      'https://sns.eu-central-1.amazonaws.com.evil.example/a.pem',
      'https://sns.eu-central-1.amazonaws.com@evil.example/a.pem',
      'https://a:b@sns.eu-central-1.amazonaws.com/a.pem',
      'https://sns.eu-central-1.amazonaws.com:444/a.pem',
      'https://evil.example/sns.eu-central-1.amazonaws.com/a.pem',
      'https://sns.eu-central-1.amazonaws.com/?Action=a',
      'nonsense',
    ].map((SigningCertURL): [string, string] => [SigningCertURL, snsBody({ SigningCertURL })]),
  ])('%s', async (_name, body) => {
    const { asked, post, seen } = setUp()
    expect(await post(body)).toBe(401)
    expect([asked, seen]).toEqual([[], []])
  })
})

test.each<[string, string]>([
  ['another message', snsBody({}, { Message: '{"orderId":"o-2"}' })],
  ['another id', snsBody({}, { MessageId: 'sns-2' })],
  ['a subject that was not signed', snsBody({}, { Subject: 'a' })],
  ['another signature', snsBody({}, { Signature: 'AAAA' })],
])('%s is refused after the certificate was read', async (_name, body) => {
  const { post, seen } = setUp()
  expect(await post(body)).toBe(401)
  expect(seen).toEqual([])
})

describe('the certificate', () => {
  test.each<[string, string, number]>([
    ['alone', LEAF, 200],
    ['with its issuer', `${LEAF}\n${ISSUER}`, 200],
    ['with another issuer', `${LEAF}\n${OTHER_ISSUER}`, 401],
    ['of another key', ISSUER, 401],
    ['that is none', 'hello', 401],
    ['that is too long', LEAF + ' '.repeat(70_000), 401],
  ])('%s', async (_name, pem, status) => {
    expect(await setUp(undefined, () => new Response(pem)).post(snsBody())).toBe(status)
  })

  test('is refused before and after its time, also from the cache', async () => {
    const { asked, clock, post } = setUp()
    clock.nowMs = Date.parse('2020-01-01')
    expect(await post(snsBody())).toBe(401)
    clock.nowMs = VALID_MS
    expect(await post(snsBody())).toBe(200)
    clock.nowMs = Date.parse('2050-01-01')
    expect(await post(snsBody({ MessageId: 'sns-2' }))).toBe(401)
    expect(asked).toHaveLength(1)
  })

  // Red when a failure is kept, or is answered 4xx, after which SNS gives up.
  test.each<[string, () => Response | Promise<Response>]>([
    ['fails', () => Promise.reject(new TypeError('fetch failed'))],
    ['is answered 503', () => new Response('', { status: 503 })],
  ])('that %s is fetched again when SNS sends the message again', async (_name, fails) => {
    let isDown = true
    const { post, seen } = setUp(undefined, () => (isDown ? fails() : new Response(LEAF)))
    expect(await post(snsBody())).toBe(500)
    isDown = false
    expect(await post(snsBody())).toBe(200)
    expect(seen).toHaveLength(1)
  })

  test('that does not exist is a forged message', async () => {
    expect(await setUp(undefined, () => new Response('', { status: 404 })).post(snsBody())).toBe(
      401,
    )
  })

  test('is fetched a few times at once at most, because anybody may name one', async () => {
    const { promise, resolve } = Promise.withResolvers<Response>()
    const { asked, post } = setUp(undefined, () => promise)
    const urls = Array.from({ length: 30 }, (_, at) => CERTIFICATE_URL.replace('0123', `${at}`))
    const posts = urls.map((SigningCertURL) => post(snsBody({ SigningCertURL })))
    await Promise.race(posts)
    expect(asked.length).toBeLessThanOrEqual(10)
    resolve(new Response('', { status: 404 }))
    await Promise.all(posts)
  })
})

describe('a subscription', () => {
  test('is confirmed by hand: the log says how', async () => {
    const { asked, lines, post, seen } = setUp()
    expect(await post(snsBody(confirmation))).toBe(200)
    expect([asked, seen]).toEqual([[CERTIFICATE_URL], []])
    expect(lines).toContainEqual([
      expect.objectContaining({ topicArn: TOPIC, subscribeUrl: SUBSCRIBE_URL }),
      expect.stringContaining('open `subscribeUrl`'),
    ])
  })

  test('is confirmed by the option, and never for what is not signed', async () => {
    const { asked, post } = setUp({ topicArn: TOPIC, confirm: true })
    expect(await post(snsBody(confirmation, { Token: 'other' }))).toBe(401)
    const elsewhere = snsBody({ ...confirmation, SubscribeURL: 'https://evil.example/' })
    expect(await post(elsewhere)).toBe(200)
    expect(asked).toEqual([CERTIFICATE_URL])
    expect(await post(snsBody(confirmation))).toBe(200)
    expect(asked).toEqual([CERTIFICATE_URL, SUBSCRIBE_URL])
    expect(await post(snsBody({ ...confirmation, Type: 'UnsubscribeConfirmation' }))).toBe(200)
    expect(asked).toHaveLength(2)
  })

  test('that SNS does not confirm is asked for again', async () => {
    for (const status of [503, 400]) {
      const { post } = setUp({ topicArn: TOPIC, confirm: true }, (url) =>
        url === CERTIFICATE_URL ? new Response(LEAF) : new Response('', { status }),
      )
      expect(await post(snsBody(confirmation))).toBe(500)
    }
  })
})

test('without a topic the messages of all are taken, and a warning says so', async () => {
  const { lines, post } = setUp({})
  expect(lines).toContainEqual([{ consumer: 'orders' }, expect.stringContaining('`topicArn`')])
  expect(await post(snsBody())).toBe(200)
  expect(setUp().lines).toEqual([])
})

test.each([
  { topicArn: '' },
  { topicArn: [] },
  { topicArn: 5 },
  { confirm: true },
  { confirm: 'yes', topicArn: TOPIC },
  { fetch: {} },
  { topicARN: TOPIC },
])('options that cannot work are refused: %j', (options) => {
  expect(() => snsSignature(options as never)).toThrow(ConfigurationError)
})

describe('cloudEventId()', () => {
  const bytes = new TextEncoder().encode('{"a":1}')
  const idOf = (headers: Record<string, string>, body = bytes) =>
    cloudEventId({ headers: new Headers(headers), bytes: body })

  test('reads both modes, and what the HTTP binding encodes', () => {
    expect(idOf({ 'ce-source': '/a%20b', 'ce-id': '7' })).toBe('cloudevent:4:/a b:1:7')
    expect(idOf({ 'ce-source': '100%', 'ce-id': '7' })).toBe('cloudevent:4:100%:1:7')
    // Red when quotes are taken as a part of the id: two spellings are two events.
    for (const id of ['"A 1"', '"A\\ 1"', 'A%201', '"A%201"']) {
      expect(idOf({ 'ce-source': '/a', 'ce-id': id })).toBe('cloudevent:2:/a:3:A 1')
    }
    expect(idOf({ 'ce-source': '/a', 'ce-id': 'A%25201' })).toBe('cloudevent:2:/a:5:A%201')
    const structured = { specversion: '1.0', source: '/a b', id: '7', data: {} }
    const body = new TextEncoder().encode(JSON.stringify(structured))
    expect(idOf({ 'content-type': 'application/cloudevents+json' }, body)).toBe(
      'cloudevent:4:/a b:1:7',
    )
    expect(idOf({ 'ce-id': '7' })).toBeUndefined()
  })
})
