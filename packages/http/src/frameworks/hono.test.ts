import { memoryInbox } from '@onceward/core/memory'
import { type Context, Hono, type MiddlewareHandler } from 'hono'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { guardOf, kindOf, requestOf, type Sent, type Shown, shown } from '../fixtures/charges.ts'
import { honoRoute } from './hono.ts'

const opened: { close(): Promise<void> }[] = []
afterEach(async () => {
  for (const each of opened.splice(0)) await each.close()
})

type Given = Parameters<typeof guardOf>

/** An application whose middleware comes before the guarded route, and that tells what reaches its error handler. */
function appOf(before: MiddlewareHandler, ...given: Given) {
  const guard = guardOf(...given)
  opened.push(guard)
  const errors: unknown[] = []
  const app = new Hono()
  app.use(before)
  app.all('/charges', honoRoute(guard))
  app.onError((error, context) => {
    errors.push(error)
    return context.text(error.message, 500)
  })
  const send = async (sent: Sent = {}): Promise<Shown> => shown(await app.request(requestOf(sent)))
  return { errors, send }
}

const bytesOf: Given[0] = ({ request }) => ({ body: Buffer.from(request.bytes).toString('hex') })
const hex = (text: string): string => Buffer.from(text).toString('hex')
const body = '{ "name": "Grüße" }'

const reading =
  (read: (context: Context) => Promise<unknown>): MiddlewareHandler =>
  async (context, next) => {
    await read(context)
    await next()
  }

describe('a middleware that has read the body through c.req', () => {
  test.each<[string, (context: Context) => Promise<unknown>]>([
    ['as a text', ({ req }) => req.text()],
    ['as JSON', ({ req }) => req.json()],
    ['as bytes', ({ req }) => req.arrayBuffer()],
    ['as a blob', ({ req }) => req.blob()],
    ['not at all', async () => undefined],
  ])('%s leaves its bytes to the guard', async (_how, read) => {
    const { send } = appOf(reading(read), bytesOf)
    expect(await send({ body })).toMatchObject({ status: 200, text: hex(body) })
  })

  // Red when a text stands for bytes that it has replaced: two bodies would be one.
  test('as a text that has lost bytes is told what to do', async () => {
    const handler = vi.fn(() => undefined)
    const { errors, send } = appOf(
      reading(({ req }) => req.text()),
      handler,
    )
    const text = expect.stringContaining('Read it by `c.req.arrayBuffer()`')
    for (const headers of [{}, { 'content-length': '3' }]) {
      const answer = await send({ body: Uint8Array.of(0x22, 0xff, 0x22), headers })
      expect(answer).toMatchObject({ status: 500, text })
    }
    const error = { code: 'ONCEWARD_CONFIGURATION' }
    expect(errors).toMatchObject([error, error])
    expect(handler).not.toHaveBeenCalled()
  })

  // Red when each replacement character is taken for lost bytes: a user's text that has one is answered 500 for ever.
  test('as a text may have read a replacement character that the client has sent', async () => {
    const { send } = appOf(
      reading(({ req }) => req.json()),
      bytesOf,
    )
    const sent = '"a\ufffdb"'
    const headers = { 'content-length': '7' }
    expect(await send({ body: sent, headers })).toMatchObject({ status: 200, text: hex(sent) })
  })

  // Red when the advice is what the middleware has done: Hono keeps such a form, and not its bytes.
  test.each<[string, (context: Context) => Promise<unknown>]>([
    ['past it', ({ req }) => req.raw.text()],
    ['as a form', ({ req }) => req.formData()],
    // The versions before 4.8.4 keep the value and not the text.
    [
      'as JSON of an older Hono',
      async ({ req }) => Object.assign(req.bodyCache, { json: { body: await req.raw.text() } }),
    ],
  ])('%s is told what to do', async (_how, read) => {
    const handler = vi.fn(() => undefined)
    const { errors, send } = appOf(reading(read), handler, { decode: () => 1 })
    const headers = { 'content-type': 'application/x-www-form-urlencoded' }
    expect((await send({ body: 'cents=500', headers })).status).toBe(500)
    expect(errors).toMatchObject([
      {
        code: 'ONCEWARD_CONFIGURATION',
        message: expect.stringMatching(
          /bytes are gone.*`c\.req\.arrayBuffer\(\)` first.*formData.*`c\.req\.json\(\)` of Hono before 4\.8\.4/,
        ),
      },
    ])
    expect(handler).not.toHaveBeenCalled()
  })
})

test('the original of a request is the context, with what a middleware left there', async () => {
  const { send } = appOf(
    async (context, next) => {
      context.set('user', 'u-1')
      await next()
    },
    ({ request }) => ({ body: (request.original as Context).get('user') as string }),
  )
  expect((await send()).text).toBe('u-1')
})

test('an error of the handler reaches the error handler of the application, a problem does not', async () => {
  const error = new Error('card network down')
  const { errors, send } = appOf(
    (_, next) => next(),
    () => Promise.reject(error),
  )
  expect(await send()).toMatchObject({ status: 500, text: 'card network down' })
  expect(errors).toEqual([error])
  expect(kindOf(await send({ method: 'GET' }))).toBe('method-not-allowed')
  expect(errors).toHaveLength(1)
})

describe('a guard under two prefixes of one application', () => {
  const guardOfCharges = () => {
    const guard = guardOf(({ request }) => ({ body: new URL(request.url).pathname }))
    opened.push(guard)
    return guard
  }
  const answersOf = async (app: Hono): Promise<readonly Shown[]> => [
    await shown(await app.request(requestOf({ key: 'k', path: '/v1/charges' }))),
    await shown(await app.request(requestOf({ key: 'k', path: '/v2/charges' }))),
  ]
  const charges = (guard = guardOfCharges()) => new Hono().all('/charges', honoRoute(guard))

  test.each<[string, () => Hono]>([
    [
      '`route`',
      () => {
        const sub = charges()
        return new Hono().route('/v1', sub).route('/v2', sub)
      },
    ],
    [
      '`basePath`',
      () => new Hono().basePath('/:version').all('/charges', honoRoute(guardOfCharges())),
    ],
    [
      '`mount` with a `replaceRequest` that keeps the request',
      () => {
        const guard = guardOfCharges()
        const sub = new Hono().basePath('/:version').all('/charges', honoRoute(guard))
        const options = { replaceRequest: (request: Request) => request }
        return new Hono().mount('/v1', sub.fetch, options).mount('/v2', sub.fetch, options)
      },
    ],
  ])('by %s takes a key for one of them', async (_how, appOfIt) => {
    const [first, second] = await answersOf(appOfIt())
    expect(first).toMatchObject({ status: 200, text: '/v1/charges' })
    expect([second?.status, kindOf(second as Shown)]).toEqual([422, 'key-reused'])
  })

  // Hono hands over a new request without the prefix, and nothing in it leads to the first one. docs/http.md says so.
  test('by `mount` sees one route, and a guard for each prefix keeps their keys apart', async () => {
    const shared = charges()
    const together = new Hono().mount('/v1', shared.fetch).mount('/v2', shared.fetch)
    const [, replayed] = await answersOf(together)
    expect(replayed).toMatchObject({
      text: '/charges',
      headers: { 'idempotency-replayed': 'true' },
    })
    const inbox = memoryInbox()
    const ownOf = (consumer: string) => {
      const guard = guardOf(() => ({ body: consumer }), { consumer, inbox })
      opened.push(guard)
      return charges(guard).fetch
    }
    const apart = new Hono().mount('/v1', ownOf('charges.v1')).mount('/v2', ownOf('charges.v2'))
    expect((await answersOf(apart)).map(({ text }) => text)).toEqual(['charges.v1', 'charges.v2'])
  })
})
