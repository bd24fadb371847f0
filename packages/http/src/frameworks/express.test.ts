import type { ServerResponse } from 'node:http'
import express from 'express'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { guardOf, kindOf } from '../fixtures/charges.ts'
import { listen, type Running, send } from '../fixtures/servers.ts'
import { type ExpressRequest, expressRoute, keepRawBody } from './express.ts'

const opened: { close(): Promise<void> }[] = []
afterEach(async () => {
  for (const each of opened.splice(0)) await each.close()
})

type Given = Parameters<typeof guardOf>

/** A server whose middleware comes before the guarded route, and that tells what reaches its error handler. */
async function serverOf(before: express.RequestHandler, ...given: Given) {
  const guard = guardOf(...given)
  const errors: unknown[] = []
  const app = express()
  app.use(before)
  app.use('/v1', express.Router().all('/charges', expressRoute(guard)))
  app.use(((error, _request, response, _next) => {
    errors.push(error)
    response.status(500).send('failed')
  }) satisfies express.ErrorRequestHandler)
  const server: Running = await listen(app)
  opened.push(server, guard)
  return { errors, server }
}

const pass: express.RequestHandler = (_request, _response, next) => next()
const path = '/v1/charges?a=1'

test('a mounted route counts the whole path, and gives the handler the request of Express', async () => {
  const { server } = await serverOf(
    (request, _response, next) => {
      Object.assign(request, { user: 'u-1' })
      next()
    },
    ({ request }) => ({
      body: {
        url: request.url.replace(/^http:\/\/[^/]*/, ''),
        user: (request.original as { readonly user: string }).user,
      },
    }),
  )
  expect(JSON.parse((await send(server, { key: 'k', path })).text)).toEqual({
    ...{ url: path, user: 'u-1' },
  })
  expect((await send(server, { key: 'k', path: '/v1/charges?a=2' })).status).toBe(422)
})

describe('bytes that a parser kept', () => {
  // Red when what a parser made of the body decides, and not its bytes.
  test('come before what a middleware put in the place of the body', async () => {
    const { server } = await serverOf(
      (request, response, next) => {
        express.json({ verify: keepRawBody })(request, response, (error?: unknown) => {
          request.body = Buffer.from('{"cents":1}')
          next(error)
        })
      },
      ({ request }) => ({ body: Buffer.from(request.bytes).toString() }),
    )
    expect((await send(server, { path })).text).toBe('{"cents":500}')
  })

  test('that are gone reach the error handler, and nothing runs', async () => {
    const handler = vi.fn(() => undefined)
    const { errors, server } = await serverOf(express.json(), handler)
    expect((await send(server, { path })).status).toBe(500)
    expect(errors).toMatchObject([
      { code: 'ONCEWARD_CONFIGURATION', message: expect.stringContaining('keepRawBody') },
    ])
    expect(handler).not.toHaveBeenCalled()
  })
})

test('an error of the handler reaches the error handler as it was thrown, a problem does not', async () => {
  const error = new Error('card network down')
  const { errors, server } = await serverOf(pass, () => Promise.reject(error))
  expect((await send(server, { path })).status).toBe(500)
  expect(errors).toEqual([error])
  expect(kindOf(await send(server, { path, method: 'GET' }))).toBe('method-not-allowed')
  expect(errors).toHaveLength(1)
})

test('a request of another program has its target in `url`', async () => {
  const guard = guardOf(({ request }) => ({ body: request.url }))
  const route = expressRoute(guard)
  const server = await listen((request, response: ServerResponse) =>
    route(request as ExpressRequest, response, () => response.destroy()),
  )
  opened.push(server, guard)
  expect((await send(server, { path })).text).toMatch(/\/v1\/charges\?a=1$/)
})
