import { getRequestListener } from '@hono/node-server'
import express from 'express'
import fc from 'fast-check'
import { Hono } from 'hono'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { guardOf } from './fixtures/charges.ts'
import {
  FRAMEWORKS,
  type Framework,
  listen,
  type Running,
  send,
  serve,
} from './fixtures/servers.ts'
import { expressRoute } from './frameworks/express.ts'
import { honoRoute } from './frameworks/hono.ts'
import type { HttpGuard } from './http-guard.ts'

const opened: { close(): Promise<void> }[] = []
afterEach(async () => {
  for (const each of opened.splice(0)) await each.close()
})

/** Serves the guard, and answers 299 behind it where the framework has a next route. */
async function serveBefore(framework: Framework, guard: HttpGuard): Promise<Running> {
  if (framework === 'express') {
    const app = express()
    app.post('/charges', expressRoute(guard))
    app.use((_request, response) => void response.status(299).end())
    app.set('env', 'test')
    return listen(app)
  }
  if (framework === 'hono') {
    const app = new Hono()
    app.post('/charges', honoRoute(guard))
    app.onError((_error, context) => context.text('failed', 500))
    const listener = getRequestListener(app.fetch)
    return listen((request, response) => void listener(request, response))
  }
  return serve(framework, guard)
}

const unreadable = new Proxy(new Error('x'), {
  get: () => {
    throw new Error('trapped')
  },
})
/** Values that mean something to a framework, and any others. */
const thrown: fc.Arbitrary<unknown> = fc.oneof(
  fc.constantFrom<unknown>('route', 'router', null, undefined, 0, false, '', 5n, Symbol('x')),
  fc.constantFrom<unknown>(unreadable, Object.freeze(new Error('frozen'))),
  fc.string(),
  fc.anything(),
)

describe.each(FRAMEWORKS)('property: whatever is thrown is answered 500: %s', (framework) => {
  test.each(['handler', 'tenant'] as const)('by the %s', async (place) => {
    vi.spyOn(console, 'error').mockImplementation(() => undefined)
    let raise: (() => never) | undefined
    const guard = guardOf(
      () => {
        if (place === 'handler') raise?.()
        return { status: 201 }
      },
      {
        tenant: () => {
          if (place === 'tenant') raise?.()
          return 'a'
        },
      },
    )
    const server = await serveBefore(framework, guard)
    opened.push(server, guard)
    let key = 0
    await fc.assert(
      fc.asyncProperty(thrown, async (value) => {
        key += 1
        raise = () => {
          throw value
        }
        expect((await send(server, { key: `k${key}` })).status).toBe(500)
        raise = undefined
        expect((await send(server, { key: `k${key}` })).status).toBe(201)
      }),
      { numRuns: 60 },
    )
  })
})
