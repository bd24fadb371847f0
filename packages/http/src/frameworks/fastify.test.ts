import { Readable } from 'node:stream'
import { createGunzip, gzipSync } from 'node:zlib'
import { type FastifyInstance, fastify, type preParsingHookHandler } from 'fastify'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { guardOf, kindOf, type Sent, type Shown } from '../fixtures/charges.ts'
import { listen, send } from '../fixtures/servers.ts'
import { fastifyRoute, rawBodies } from './fastify.ts'

const opened: { close(): Promise<void> }[] = []
afterEach(async () => {
  for (const each of opened.splice(0)) await each.close()
})

type Given = Parameters<typeof guardOf>
type Client = (sent?: Sent) => Promise<Shown>

/** An application with one guarded route, to which the test may add before that is ready. */
async function clientOf(
  before: (app: FastifyInstance, route: ReturnType<typeof fastifyRoute>) => unknown,
  ...given: Given
): Promise<{ readonly send: Client; readonly errors: readonly unknown[] }> {
  const guard = guardOf(...given)
  const errors: unknown[] = []
  const app = fastify()
  app.setErrorHandler((error, _request, reply) => {
    errors.push(error)
    return reply.code(500).send('failed')
  })
  await app.register(rawBodies)
  await before(app, fastifyRoute(guard))
  await app.ready()
  const server = await listen((request, response) => app.routing(request, response))
  opened.push(server, guard)
  return { errors, send: (sent) => send(server, sent) }
}

const bytesOf: Given[0] = ({ request }) => ({ body: Buffer.from(request.bytes).toString() })
const charges = (app: FastifyInstance, route: ReturnType<typeof fastifyRoute>) =>
  app.all('/charges', route)

describe('hooks that a route has before the guard keeps its bytes', () => {
  const seen: string[] = []
  const hook = (name: string) => async () => void seen.push(name)

  test.each([
    ['one hook', hook('a'), ['a']],
    ['several hooks', [hook('a'), hook('b')], ['a', 'b']],
    ['none', undefined, []],
  ])('still run: %s', async (_what, preParsing, ran) => {
    seen.length = 0
    const { send } = await clientOf(
      (app, handler) =>
        app.post('/charges', {
          handler,
          ...(preParsing === undefined ? {} : { preParsing: preParsing as never }),
        }),
      bytesOf,
    )
    expect((await send({ body: '{"a":1}' })).text).toBe('{"a":1}')
    expect(seen).toEqual(ran)
  })

  // Red when the bytes are those before a hook that changes them: Fastify would parse another body than the guard.
  test('may change the body, for the guard too', async () => {
    const changed = '{"a":2}'
    const { send } = await clientOf(
      (app, handler) =>
        app.post('/charges', {
          handler,
          preParsing: async () =>
            Object.assign(Readable.from([Buffer.from(changed)]), {
              receivedEncodedLength: changed.length,
            }),
        }),
      bytesOf,
    )
    expect((await send({ body: '{"a":1}' })).text).toBe(changed)
  })

  // Red when the guard counts inflated bytes where Fastify asks for those that came: every such request is answered 400.
  test.each([
    ['its own decoder', {}],
    ['a decoder of the user', { decode: (bytes: Uint8Array) => Buffer.from(bytes).toString() }],
  ])('may inflate it, as @fastify/compress does, for %s', async (_what, given) => {
    const inflate: preParsingHookHandler = (_request, _reply, payload, done) => {
      const inflating = Object.assign(createGunzip(), { receivedEncodedLength: 0 })
      payload.on('data', ({ length }: Uint8Array) => {
        inflating.receivedEncodedLength += length
      })
      done(null, payload.pipe(inflating))
    }
    const { send } = await clientOf(
      (app, handler) => app.post('/charges', { handler, preParsing: inflate }),
      bytesOf,
      given,
    )
    const text = JSON.stringify({ cents: '5'.repeat(100) })
    const body = Uint8Array.from(gzipSync(text))
    const answer = await send({ body, headers: { 'content-encoding': 'gzip' } })
    expect(answer).toMatchObject({ status: 200, text })
  })
})

test('other routes of the application are left as they are', async () => {
  const { send } = await clientOf((app, handler) => {
    app.post('/charges', handler)
    app.post('/other', {
      config: { onceward: false },
      handler: async (request) => request.body,
      preParsing: async (_request, _reply, payload) => {
        expect(payload).not.toHaveProperty('bytes')
        return payload
      },
    })
  }, bytesOf)
  expect((await send({ path: '/other', body: '{"a":1}' })).text).toBe('{"a":1}')
})

describe('a body of a guarded route', () => {
  test.each([10, 11])('is held to the limit of the guard: %i of 10 bytes', async (length) => {
    const handler = vi.fn(() => undefined)
    const { send } = await clientOf(charges, handler, { maxBodyBytes: 10 })
    const answer = await send({ body: `"${'a'.repeat(length - 2)}"` })
    expect(answer.status).toBe(length === 10 ? 204 : 413)
    expect(handler).toHaveBeenCalledTimes(length === 10 ? 1 : 0)
  })

  // Red when Fastify compares the declared length with one that nobody counted.
  test('may come in many pieces', async () => {
    const { send } = await clientOf(charges, ({ payload, request: { bytes } }) => ({
      body: String(JSON.stringify(payload) === Buffer.from(bytes).toString()),
    }))
    const body = JSON.stringify(Array.from({ length: 50_000 }, (_, index) => index))
    expect((await send({ body })).text).toBe('true')
  })

  test('may be empty, and the method may have none', async () => {
    const { send } = await clientOf(charges, bytesOf)
    const headers = { 'content-type': 'text/plain' }
    expect(await send({ body: '', headers })).toMatchObject({ status: 200, text: '' })
    expect(kindOf(await send({ method: 'GET' }))).toBe('method-not-allowed')
  })
})

test('the original of a request is that of Fastify, and its target has what a prefix added', async () => {
  const { send } = await clientOf(
    async (app, handler) => {
      app.decorateRequest('user', '')
      app.addHook('onRequest', async (request) => void Object.assign(request, { user: 'u-1' }))
      await app.register(async (scope) => void scope.post('/charges', handler), { prefix: '/v1' })
    },
    ({ request }) => ({
      body: {
        url: new URL(request.url).pathname,
        user: (request.original as { readonly user: string }).user,
      },
    }),
  )
  const answer = await send({ path: '/v1/charges' })
  expect(JSON.parse(answer.text)).toEqual({ url: '/v1/charges', user: 'u-1' })
})

test('an error of the handler reaches the error handler as it was thrown, a problem does not', async () => {
  const error = new Error('card network down')
  const { errors, send } = await clientOf(charges, () => Promise.reject(error))
  expect((await send()).status).toBe(500)
  expect(errors).toEqual([error])
  expect((await send({ key: 'a b' })).status).toBe(400)
  expect(errors).toHaveLength(1)
})

test('a route that was registered before the plugin is told what to do', async () => {
  const guard = guardOf(() => undefined)
  const app = fastify()
  app.post('/charges', fastifyRoute(guard))
  await app.register(rawBodies)
  await app.ready()
  const server = await listen((request, response) => app.routing(request, response))
  opened.push(server, guard)
  expect(await send(server)).toMatchObject({
    ...{ status: 500, text: expect.stringContaining('await app.register(rawBodies)') },
  })
})
