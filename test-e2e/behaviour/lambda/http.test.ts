import { createHmac } from 'node:crypto'
import { memoryInbox } from '@onceward/core/memory'
import { createHttpGuard, type HttpEvent, type HttpGuard } from '@onceward/http'
import { createWebhookGuard, githubSignature } from '@onceward/http/webhooks'
import { type LambdaHttpHandler, lambdaHttp } from '@onceward/lambda'
import type { APIGatewayProxyEvent, APIGatewayProxyEventV2 } from 'aws-lambda'
import { describe, expect, test } from 'vitest'

const silent = { debug() {}, info() {}, warn() {}, error() {} }
const contextOf = (leftMs: number) => {
  const endsAt = Date.now() + leftMs
  return { getRemainingTimeInMillis: () => endsAt - Date.now() }
}

interface Asked {
  readonly method?: string
  readonly path?: string
  readonly query?: Readonly<Record<string, string>>
  readonly headers?: Readonly<Record<string, string>>
  readonly cookies?: readonly string[]
  readonly body?: string | undefined
  readonly isBase64Encoded?: boolean
}

const HEADERS = { host: 'api.example', 'content-type': 'application/json', 'idempotency-key': 'k' }

function second({ body, cookies, headers, isBase64Encoded = false, ...asked }: Asked) {
  const { method = 'POST', path = '/charges', query = {} } = asked
  return {
    ...{ version: '2.0', routeKey: '$default', rawPath: path, cookies, body, isBase64Encoded },
    rawQueryString: new URLSearchParams(query).toString(),
    headers: { ...HEADERS, ...headers },
    requestContext: { domainName: 'api.example', http: { method, path } },
  } as unknown as APIGatewayProxyEventV2
}

function first({ body, cookies, headers, isBase64Encoded = false, ...asked }: Asked) {
  const { method: httpMethod = 'POST', path = '/charges', query = {} } = asked
  const lists = (of: object) =>
    Object.fromEntries(Object.entries(of).map(([name, value]) => [name, [value]]))
  const all = { ...HEADERS, ...headers, ...(cookies && { Cookie: cookies.join('; ') }) }
  return {
    ...{ resource: '/{proxy+}', httpMethod, path, body: body ?? null, isBase64Encoded },
    ...{ headers: all, multiValueHeaders: lists(all) },
    ...{ queryStringParameters: query, multiValueQueryStringParameters: lists(query) },
    requestContext: { domainName: 'api.example', stage: 'prod' },
  } as unknown as APIGatewayProxyEvent
}

interface SetUp {
  readonly handler: LambdaHttpHandler
  readonly guard: HttpGuard
  readonly seen: HttpEvent<unknown>[]
}

function setUp(
  answer: (event: HttpEvent<unknown>) => unknown = () => ({ status: 201, body: { ok: true } }),
  options: object = {},
): SetUp {
  const seen: HttpEvent<unknown>[] = []
  const guard = createHttpGuard(
    {
      ...{ consumer: 'charges.create', inbox: memoryInbox(), tenant: 'none', logger: silent },
      ...options,
    },
    async (event) => {
      seen.push(event)
      return answer(event) as undefined
    },
  )
  return { guard, seen, handler: lambdaHttp(guard) }
}

describe.each([
  ['payload 2.0 and a function URL', second],
  ['payload 1.0', first],
] as const)('%s', (_name, eventOf) => {
  test('runs the handler once, and a retry gets the same answer', async () => {
    const { handler, seen } = setUp()
    const event = eventOf({ body: '{"cents":5}' })
    const answered = await handler(event, contextOf(10_000))
    expect(answered).toMatchObject({ statusCode: 201, body: '{"ok":true}', isBase64Encoded: false })
    expect(JSON.stringify(answered)).toContain('application/json')
    const again = await handler(event, contextOf(10_000))
    expect(again).toMatchObject({ statusCode: 201, body: '{"ok":true}' })
    expect(JSON.stringify(again)).toMatch(/idempotency-replayed/i)
    expect(seen).toMatchObject([{ payload: { cents: 5 }, key: 'k' }])
  })

  test('gives the handler the request as it came', async () => {
    const { handler, seen } = setUp()
    await handler(
      eventOf({
        ...{ path: '/a b/ü', query: { q: 'x y&z', ä: '1' }, cookies: ['a=1', 'b=2'] },
        ...{ headers: { 'x-odd\n': 'left out', 'x-own': 'yes' } },
        ...{ body: Buffer.from('{"a":"ü"}').toString('base64'), isBase64Encoded: true },
      }),
    )
    const [{ payload, request }] = seen as [HttpEvent<unknown>]
    expect(payload).toEqual({ a: 'ü' })
    const { pathname, searchParams } = new URL(request.url)
    expect(request.url).toMatch(/^https:\/\/api\.example\//)
    expect(decodeURIComponent(pathname)).toBe('/a b/ü')
    expect([searchParams.get('q'), searchParams.get('ä')]).toEqual(['x y&z', '1'])
    expect(request.headers.get('cookie')).toBe('a=1; b=2')
    expect(request.headers.get('x-own')).toBe('yes')
  })

  test('another body, path or query under a used key is refused', async () => {
    const { handler } = setUp()
    await handler(eventOf({ body: '{}' }))
    for (const other of [{ body: '[]' }, { path: '/b' }, { query: { a: '1' } }]) {
      expect(await handler(eventOf({ body: '{}', ...other }))).toMatchObject({ statusCode: 422 })
    }
  })

  test('answers cookies, bytes and nothing as the platform takes them', async () => {
    const bytes = new Uint8Array([0xff, 0])
    const { handler } = setUp(() => {
      const headers = new Headers({ 'content-type': 'image/png' })
      headers.append('set-cookie', 'a=1')
      headers.append('set-cookie', 'b=2')
      return new Response(bytes, { headers })
    })
    const answered = await handler(eventOf({ body: '{}' }))
    expect(answered).toMatchObject({
      ...{ statusCode: 200, isBase64Encoded: true, body: Buffer.from(bytes).toString('base64') },
    })
    const { cookies, multiValueHeaders } = answered
    expect(cookies ?? multiValueHeaders?.['set-cookie']).toEqual(['a=1', 'b=2'])
    const empty = setUp(() => undefined)
    expect(await empty.handler(eventOf({}))).toMatchObject({ statusCode: 204, body: '' })
    expect(await empty.handler(eventOf({ method: 'GET' }))).toMatchObject({ statusCode: 405 })
  })

  test('checks a signature over the bytes that were signed', async () => {
    const secret = 'a secret of the test'
    const body = '{"zen": "ü"}'
    const signature = createHmac('sha256', secret).update(body).digest('hex')
    const hook = createWebhookGuard(
      {
        ...{ consumer: 'hooks', inbox: memoryInbox(), logger: silent },
        verify: githubSignature(secret),
      },
      () => undefined,
    )
    const headers = { 'x-hub-signature-256': `sha256=${signature}`, 'x-github-delivery': '1' }
    const handler = lambdaHttp(hook)
    expect(await handler(eventOf({ body, headers }))).toMatchObject({ statusCode: 200 })
    expect(await handler(eventOf({ body: '{"zen":"ü"}', headers }))).toMatchObject({
      statusCode: 401,
    })
  })
})

// Red without the deadline of the context: Lambda freezes the process, and its row answers retries 409 until it expires.
test('a handler that does not end is cut off before the invocation ends, and a retry runs', async () => {
  let isHanging = true
  const { handler, seen } = setUp(() =>
    isHanging ? new Promise(() => undefined) : { status: 201 },
  )
  const event = second({ body: '{}' })
  const cut = await handler(event, contextOf(400))
  expect(cut.statusCode).toBeGreaterThanOrEqual(500)
  isHanging = false
  expect(await handler(event, contextOf(10_000))).toMatchObject({ statusCode: 201 })
  expect(seen).toHaveLength(2)
})

test('an invocation without time runs nothing, and a store that hangs is answered 503 in time', async () => {
  const { handler, seen } = setUp()
  expect(await handler(second({ body: '{}' }), contextOf(60))).toMatchObject({ statusCode: 503 })
  expect(seen).toEqual([])
  const hanging = setUp(undefined, { inbox: { open: () => new Promise(() => undefined) } })
  const answered = await hanging.handler(second({ body: '{}' }), contextOf(300))
  expect(answered).toMatchObject({ statusCode: 503 })
})

test.each([undefined, {}, [], { Records: [] }, { version: '2.0' }, { httpMethod: 'POST' }])(
  'an event of another source is refused: %j',
  async (event) => {
    const { handler } = setUp()
    await expect(handler(event as never)).rejects.toThrow(
      /lambdaHttp expected an event of an API Gateway/,
    )
  },
)

test('a guard of another kind and an unknown option are refused at the start', () => {
  expect(() => lambdaHttp({ consumer: 'a', fetch } as never)).toThrow(/createHttpGuard/)
  expect(() => lambdaHttp(setUp().guard, { margin: 1 } as never)).toThrow(/marginMs/)
})
