import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { honoRoute } from '@onceward/http/hono'
import { Hono } from 'hono'
import { charge, proveRoute } from './answers.ts'

const app = new Hono()
app.post('/charges', honoRoute(charge))
const server = createServer((request, response) => void answer(request, response))
async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const headers = Object.entries(request.headers).map(([name, value]) => [name, String(value)])
  const url = `http://127.0.0.1${request.url}`
  const init = { method: 'POST', headers: Object.fromEntries(headers), body: await buffer(request) }
  const found = await app.fetch(new Request(url, init))
  response.writeHead(found.status, Object.fromEntries(found.headers)).end(await found.text())
}
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
await proveRoute(`http://127.0.0.1:${(server.address() as AddressInfo).port}/charges`)
