// @module-tag nightly

import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { until } from '../../until.ts'
import { proxy, swallowReplyTo, type TcpProxy } from './proxy.ts'

// A line server: what it received is kept in `seen`, every piece is echoed in capitals.
let seen: string
let target: { host: string; port: number }
let close: () => Promise<void>
const opened: Socket[] = []

beforeEach(async () => {
  seen = ''
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    socket.on('data', (chunk) => {
      seen += chunk.toString()
      socket.write(chunk.toString().toUpperCase())
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  target = { host: '127.0.0.1', port: (server.address() as { port: number }).port }
  close = async () => {
    for (const socket of [...sockets, ...opened.splice(0)]) socket.destroy()
    await new Promise((resolve) => server.close(resolve))
  }
})

afterEach(() => close())

interface Client {
  readonly socket: Socket
  readonly closed: boolean
  readonly got: string
}

function dial(through: TcpProxy): Client {
  const socket = connect({ host: through.host, port: through.port })
  const client = { socket, closed: false, got: '' }
  socket.on('error', () => undefined)
  socket.on('close', () => Object.assign(client, { closed: true }))
  socket.on('data', (chunk) => Object.assign(client, { got: client.got + chunk.toString() }))
  opened.push(socket)
  return client
}

test('data passes in both directions, and so does the end of a stream', async () => {
  await using through = await proxy(target)
  const client = dial(through)
  client.socket.write('hello')
  await until(() => client.got === 'HELLO')
  client.socket.end()
  await until(() => client.closed)
  await until(() => through.connections === 0)
})

test('a megabyte arrives complete and in order although the reader is slow', async () => {
  await using through = await proxy(target)
  const client = dial(through)
  const big = Array.from({ length: 150_000 }, (_, index) => `${index};`).join('')
  client.socket.pause()
  client.socket.write(big)
  await until(() => seen.length > 0)
  client.socket.resume()
  await until(() => client.got.length === big.length)
  expect(client.got).toBe(big)
})

test('latency is added once to a round trip, in order', async () => {
  await using through = await proxy(target, { latencyMs: 120 })
  const client = dial(through)
  await once(client.socket, 'connect')
  const startedAt = performance.now()
  client.socket.write('a')
  await until(() => client.got === 'A', { everyMs: 1 })
  // Only the lower bound: a busy machine may take longer, never less.
  expect(performance.now() - startedAt).toBeGreaterThanOrEqual(119)
})

test('a pause holds data back without closing anything, and resume delivers it', async () => {
  await using through = await proxy(target)
  const client = dial(through)
  client.socket.write('one')
  await until(() => client.got === 'ONE')

  through.pause()
  client.socket.write('two')
  const late = dial(through)
  late.socket.write('late')
  await until(() => through.connections === 2)
  expect(seen).toBe('one')

  through.resume()
  await until(() => client.got === 'ONETWO' && late.got === 'LATE')
})

test('a pause of one direction holds back the answers, or the requests, of the connections that it is for', async () => {
  await using through = await proxy(target)
  const [hurt, healthy] = [dial(through), dial(through)]
  await until(() => through.connections === 2)

  through.pause({ direction: 'down', only: ({ number }) => number === 1 })
  hurt.socket.write('one')
  healthy.socket.write('two')
  await until(() => healthy.got === 'TWO' && seen.includes('one'))
  expect(hurt.got).toBe('')

  through.resume()
  await until(() => hurt.got === 'ONE')
  through.pause({ direction: 'up', only: ({ number }) => number !== 2 })
  hurt.socket.write('three')
  const late = dial(through)
  late.socket.write('late')
  healthy.socket.write('four')
  await until(() => healthy.got === 'TWOFOUR' && through.connections === 3)
  expect(seen).not.toMatch(/three|late/)

  through.resume()
  await until(() => hurt.got === 'ONETHREE' && late.got === 'LATE')
})

test('while new connections are ignored they hang, and open ones go on', async () => {
  await using through = await proxy(target)
  const client = dial(through)
  client.socket.write('a')
  await until(() => client.got === 'A')

  await through.ignore(true)
  const late = dial(through)
  late.socket.write('late')
  client.socket.write('b')
  await until(() => client.got === 'AB')
  expect([late.socket.connecting, late.closed]).toEqual([true, false])

  await through.ignore(false)
  // A connection that hung is refused or goes through, as the kernel decides; a new one is accepted.
  const welcome = dial(through)
  welcome.socket.write('c')
  await until(() => welcome.got === 'C')
})

test('cut destroys open connections, and refuse resets new ones until it is switched off', async () => {
  await using through = await proxy(target)
  const client = dial(through)
  client.socket.write('x')
  await until(() => client.got === 'X')
  through.cut()
  await until(() => client.closed)

  through.refuse(true)
  const refused = dial(through)
  await until(() => refused.closed)
  expect(refused.got).toBe('')

  through.refuse(false)
  const welcome = dial(through)
  welcome.socket.write('y')
  await until(() => welcome.got === 'Y')
})

test('connections that are opened after a failover reach the new server', async () => {
  const other = createServer((socket) => {
    socket.on('error', () => undefined)
    socket.on('data', () => socket.write('other'))
  }).listen(0, '127.0.0.1')
  await once(other, 'listening')
  await using through = await proxy(target)
  const before = dial(through)
  before.socket.write('a')
  await until(() => before.got === 'A')
  through.target = { host: '127.0.0.1', port: (other.address() as { port: number }).port }
  const after = dial(through)
  after.socket.write('b')
  await until(() => after.got === 'other')
  before.socket.write('c')
  await until(() => before.got === 'AC')
  after.socket.destroy()
  other.close()
})

test('a hook drops one piece and cuts at another before the server sees it', async () => {
  await using through = await proxy(target, {
    onData: (direction, chunk) => {
      const text = chunk.toString()
      if (direction === 'up' && text === 'lost') return 'drop'
      return text === 'fatal' ? 'cut' : 'pass'
    },
  })
  const client = dial(through)
  client.socket.write('lost')
  await until(() => through.connections === 1)
  const other = dial(through)
  other.socket.write('fatal')
  await until(() => other.closed)
  client.socket.write('kept')
  await until(() => client.got === 'KEPT')
  expect(seen).toBe('kept')
})

test('swallowReplyTo lets the text reach the server and cuts before the reply', async () => {
  await using through = await proxy(target, { onData: swallowReplyTo(/commit/i, 1) })
  const client = dial(through)
  client.socket.write('begin')
  await until(() => client.got === 'BEGIN')
  client.socket.write('COMMIT')
  await until(() => client.closed)
  expect(seen).toBe('beginCOMMIT')
  expect(client.got).toBe('BEGIN')

  const second = dial(through)
  second.socket.write('commit')
  await until(() => second.got === 'COMMIT')
})
