import { StoreUnavailableError } from '@onceward/core'
import { memoryInbox } from '@onceward/core/memory'
import { createHttpGuard, type HttpGuard } from '@onceward/http'
import { createWebhookGuard, githubSignature } from '@onceward/http/webhooks'
import { healthServer } from '@onceward/otel/health'
import { silent } from '@onceward/testing/conformance'
import { expect, onTestFinished, test } from 'vitest'

const DOWN = { open: () => Promise.reject(new StoreUnavailableError('down')) }

const route = (inbox: object): HttpGuard =>
  createHttpGuard(
    { consumer: 'charges', inbox: inbox as never, tenant: 'none', logger: silent },
    () => ({ status: 201 }),
  )

const ask = (guard: HttpGuard): Promise<Response> =>
  guard.fetch(
    new Request('http://localhost/', { method: 'POST', headers: { 'idempotency-key': 'k' } }),
  )

async function probe(guards: readonly HttpGuard[]) {
  const server = await healthServer({ consumptions: [], guards, host: '127.0.0.1', port: 0 })
  onTestFinished(() => server.close())
  return async (path: string) => {
    const response = await fetch(`http://127.0.0.1:${server.port}${path}`)
    return [response.status, await response.text()] as const
  }
}

test('a probe sees the store of a route, and that the route was closed', async () => {
  const [well, down] = [route(memoryInbox()), route(DOWN)]
  const get = await probe([well])
  expect((await ask(well)).status).toBe(201)
  expect((await get('/readyz'))[0]).toBe(200)
  await well.close()
  expect((await get('/livez'))[0]).toBe(200)
  const [status, text] = await get('/readyz')
  expect([status, JSON.parse(text).guards]).toEqual([
    503,
    [{ consumer: 'charges', store: 'closed', outages: [] }],
  ])

  const ofDown = await probe([down])
  expect((await ask(down)).status).toBe(503)
  expect(await ofDown('/readyz')).toEqual([
    503,
    JSON.stringify({
      consumptions: {},
      guards: [{ consumer: 'charges', store: 'down', outages: ['inbox'] }],
    }),
  ])
  expect((await ofDown('/metrics'))[1]).toContain(
    'onceward_guard_breaker{messaging_consumer_group_name="charges"} 1\n',
  )
  await down.close()
})

test('webhooks are probed too', async () => {
  const guard = createWebhookGuard(
    {
      consumer: 'billing-hooks',
      verify: githubSignature('a secret'),
      inbox: memoryInbox(),
      logger: silent,
    },
    () => undefined,
  )
  const get = await probe([guard])
  expect((await get('/readyz'))[0]).toBe(200)
  await guard.close()
  expect((await get('/readyz'))[0]).toBe(503)
})
