import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { createConnection, type Server } from 'node:net'
import { createGuard, type Guard, type Health, StoreUnavailableError } from '@onceward/core'
import { memoryInbox, toDelivery } from '@onceward/core/memory'
import { Clock } from '@onceward/testing/adapter'
import { afterEach, expect, test } from 'vitest'
import { installation } from '../fixtures/installation.ts'
import { type HealthServerOptions, healthServer } from './index.ts'

const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
const stack: AsyncDisposable[] = []
afterEach(async () => {
  for (const each of stack.splice(0)) await each[Symbol.asyncDispose]()
})

const RUNNING: Health = { state: 'running', inFlight: 2, settleFailures: 0 }
const consumption = (over: Partial<Health> = {}) => ({ health: () => ({ ...RUNNING, ...over }) })

async function serve(options: HealthServerOptions) {
  const server = await healthServer({ host: '127.0.0.1', port: 0, ...options })
  stack.push(server)
  return async (path: string, init?: RequestInit) => {
    const response = await fetch(`http://127.0.0.1:${server.port}${path}`, init)
    return { status: response.status, text: await response.text(), headers: response.headers }
  }
}

test.each<[Health['state'], number, number]>([
  ['running', 200, 200],
  ['paused', 200, 503],
  ['recovering', 200, 503],
  ['draining', 200, 503],
  ['stopped', 503, 503],
])('a consumer that is %s answers %d to /livez and %d to /readyz', async (state, live, ready) => {
  const get = await serve({
    consumptions: { orders: consumption({ state }), other: consumption() },
  })
  const livez = await get('/livez')
  expect([livez.status, (await get('/readyz?verbose')).status]).toEqual([live, ready])
  expect(JSON.parse(livez.text)).toMatchObject({ consumptions: { orders: { state, inFlight: 2 } } })
})

function guardThat(fails: boolean, { runtime } = new Clock()): Guard {
  const inbox = fails
    ? { open: () => Promise.reject(new StoreUnavailableError('down')) }
    : memoryInbox()
  return createGuard({ consumer: 'billing', inbox, logger: silent, runtime }, () => undefined)
}

test('a guard whose store is down is live and not ready', async () => {
  const guard = guardThat(true)
  const get = await serve({ consumptions: {}, guards: [guard] })
  expect((await get('/readyz')).status).toBe(200)
  await guard.process(toDelivery({}))
  expect((await get('/livez')).status).toBe(200)
  const { status, text } = await get('/readyz')
  expect(status).toBe(503)
  expect(JSON.parse(text).guards).toEqual([
    { consumer: 'billing', store: 'down', outages: ['inbox'] },
  ])
  expect((await get('/metrics')).text).toContain(
    'onceward_guard_outage{messaging_consumer_group_name="billing",onceward_dependency="inbox"} 1\n',
  )
  await guard.close()
})

// Red when only a delivery ends the outage: a load balancer that asks /readyz sends none, for ever.
test('a guard is ready again when its next delivery asks the store', async () => {
  const clock = new Clock()
  const guard = guardThat(true, clock)
  const get = await serve({ consumptions: {}, guards: [guard] })
  await guard.process(toDelivery({}))
  await clock.advance(400)
  expect((await get('/readyz')).status).toBe(503)
  await clock.advance(600)
  const { status, text } = await get('/readyz')
  expect([status, JSON.parse(text).guards]).toEqual([
    200,
    [{ consumer: 'billing', store: 'available', outages: ['inbox'] }],
  ])
  // The store is still down, and the delivery that asked it found out.
  await guard.process(toDelivery({}))
  expect((await get('/readyz')).status).toBe(503)
  await guard.close()
})

// Red when only the store is looked at: a process whose guard defers every delivery gets more of them.
test('a guard that was closed is live and not ready', async () => {
  const guard = guardThat(false)
  const get = await serve({ consumptions: [consumption()], guards: [guard] })
  expect((await get('/readyz')).status).toBe(200)
  await guard.close()
  const [live, ready] = [await get('/livez'), await get('/readyz')]
  expect([live.status, ready.status, JSON.parse(ready.text).guards]).toEqual([
    200,
    503,
    [{ consumer: 'billing', store: 'closed', outages: [] }],
  ])
})

test('/metrics is Prometheus text with every value of health', async () => {
  const lastProgressAt = new Date(Date.now() - 5_000)
  const outages = [{ dependency: 'broker', reason: 'a "quoted" reason' }] as const
  const get = await serve({
    consumptions: [consumption({ lastProgressAt, outages, settleFailures: 7 })],
    guards: [guardThat(false), guardThat(false)],
  })
  const { headers, text } = await get('/metrics')
  expect(headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8')
  const lines = text.split('\n')
  expect(lines).toEqual(
    expect.arrayContaining([
      '# TYPE onceward_consumption_state gauge',
      'onceward_consumption_state{onceward_consumption="0",onceward_state="running"} 1',
      'onceward_consumption_state{onceward_consumption="0",onceward_state="paused"} 0',
      'onceward_consumption_in_flight{onceward_consumption="0"} 2',
      '# TYPE onceward_consumption_settle_failures_total counter',
      'onceward_consumption_settle_failures_total{onceward_consumption="0"} 7',
      'onceward_consumption_outage{onceward_consumption="0",onceward_dependency="broker"} 1',
      'onceward_guard_breaker{messaging_consumer_group_name="billing"} 0',
    ]),
  )
  const idle = /onceward_consumption_idle\{[^}]*\} ([\d.]+)/.exec(text)?.[1]
  expect(Number(idle)).toBeGreaterThanOrEqual(5)
  const samples = lines.filter((line) => line !== '' && !line.startsWith('#'))
  expect(new Set(samples.map((line) => line.split(' ')[0])).size).toBe(samples.length)
})

test('/metrics can be answered by an exporter', async () => {
  const get = await serve({
    consumptions: [consumption()],
    metrics: (_request, response) => void response.end('exported'),
  })
  expect((await get('/metrics')).text).toBe('exported')
})

test('other paths and methods are refused, and a health that throws is not shown', async () => {
  const health = (): never => {
    throw new Error('postgres://user:secret@host')
  }
  const get = await serve({ consumptions: [{ health }] })
  expect((await get('/')).status).toBe(404)
  expect((await get('/livez', { method: 'POST' })).status).toBe(405)
  expect((await get('/metrics', { method: 'HEAD' })).status).toBe(500)
  const { status, text } = await get('/livez')
  expect(status).toBe(500)
  expect(text).not.toContain('secret')
})

// Red when only what an exporter throws is caught: its rejection ended the process.
test('an exporter that rejects fails the probe, also in the middle of its answer', async () => {
  let hasBegun = false
  const get = await serve({
    consumptions: [consumption()],
    metrics: async (_request, response) => {
      if (hasBegun) response.write('half')
      await Promise.resolve()
      throw new Error('postgres://user:secret@host')
    },
  })
  const { status, text } = await get('/metrics')
  expect([status, text]).toEqual([500, 'The health could not be read.'])
  hasBegun = true
  await expect(get('/metrics')).rejects.toThrow()
  expect((await get('/livez')).status).toBe(200)
})

// Red without `unref`: Node would wait for the server, and the test for Node.
test('the server does not keep the process', async () => {
  await using installed = await installation()
  const text = `
    const { healthServer } = await import('@onceward/otel/health')
    const health = () => ({ state: 'running', inFlight: 0, settleFailures: 0 })
    await healthServer({ consumptions: [{ health }], host: '127.0.0.1', port: 0 })
    console.log('listens')`
  expect(await installed.node('--input-type=module', '-e', text)).toBe('listens\n')
})

test('a close ends connections that are held open', async () => {
  const server = await healthServer({ consumptions: [consumption()], host: '127.0.0.1', port: 0 })
  const socket = createConnection(server.port, '127.0.0.1')
  await once(socket, 'connect')
  const ended = once(socket, 'close')
  socket.resume()
  await Promise.all([server.close(), server.close()])
  await server.close()
  await ended
  await expect(fetch(`http://127.0.0.1:${server.port}/livez`)).rejects.toThrow()
})

// Red before: the error event had no listener, so it ended the process with all its consumers.
test('a connection that the system cannot accept ends nothing', async () => {
  const get = await serve({ consumptions: [consumption()] })
  const servers: Server[] = []
  const onSocket = (message: unknown): void => {
    servers.push(Reflect.get(Reflect.get(Object(message), 'socket'), 'server'))
  }
  subscribe('net.server.socket', onSocket)
  expect((await get('/livez')).status).toBe(200)
  unsubscribe('net.server.socket', onSocket)
  // What Node does then: https://github.com/nodejs/node/blob/v24.0.0/lib/net.js, onconnection
  const error = Object.assign(new Error('accept ENOMEM'), { code: 'ENOMEM', syscall: 'accept' })
  expect(servers[0]?.emit('error', error)).toBe(true)
  expect((await get('/livez')).status).toBe(200)
})

// Red with Node's own interval, which looks for slow requests every 30 seconds.
test('a client that never ends its request is cut off', async () => {
  const server = await healthServer({ consumptions: [consumption()], host: '127.0.0.1', port: 0 })
  stack.push(server)
  const socket = createConnection(server.port, '127.0.0.1')
  socket.resume()
  socket.write('GET /livez HTTP/1.1\r\nhost: a\r\nx-slow: ')
  const signal = AbortSignal.timeout(20_000)
  await once(socket, 'close', { signal })
})

test('a port in use is named with what to do', async () => {
  const options = { consumptions: [consumption()], host: '127.0.0.1' }
  const first = await healthServer({ ...options, port: 0 })
  stack.push(first)
  const second = healthServer({ ...options, port: first.port })
  await expect(second).rejects.toThrow(
    `healthServer could not listen at port ${first.port}: EADDRINUSE. Give a free \`port\``,
  )
  await expect(second).rejects.toMatchObject({ cause: { code: 'EADDRINUSE' } })
})

test.each<[object, RegExp]>([
  [{ consumptions: {} }, /Expected `consumptions` or `guards`, got none/],
  [{ consumptions: { a: {} } }, /Expected a consumption as `a` of healthServer, got object/],
  [{ consumptions: [null] }, /Expected a consumption as `0` of healthServer, got null/],
  [{ consumptions: [], guards: [{}] }, /Expected a guard made by createGuard/],
  [{ consumptions: [], guards: {} }, /Expected `guards` to be a list/],
  [{ consumptions: [consumption()], port: -1 }, /Expected `port` to be an integer from 0 to 65535/],
  [{ consumptions: [consumption()], metrics: 1 }, /Expected `metrics` to be a function/],
  [{ consumption: [] }, /does not know "consumption", did you mean "consumptions"\?/],
])('%j is refused', async (options, message) => {
  await expect(healthServer(options as HealthServerOptions)).rejects.toThrow(message)
})
