import { readFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { EXIT } from '../exit-codes.ts'
import { toShownFailure } from '../failure.ts'
import { toJson, visibleDeep } from '../render/visible.ts'
import { type Access, HEADERS, refusalOf } from './access.ts'
import { type Api, Refused } from './api.ts'

const PAGE = new URL('../../src/console/page/', import.meta.url)
const FILES: Readonly<Record<string, string>> = {
  '/': 'index.html',
  '/icon.svg': 'icon.svg',
  '/style.css': 'style.css',
  ...Object.fromEntries(
    [
      'main',
      'ask',
      'dom',
      'units',
      'plot',
      'overview',
      'waiting',
      'letters',
      'letter',
      'outbox',
      'message',
      'event',
      'findings',
      'tables',
      'change',
      'marks',
    ].map((name) => [`/${name}.js`, `${name}.js`]),
  ),
}
const TYPES: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  svg: 'image/svg+xml',
}
const MOST_BYTES = 1_048_576

export interface Console {
  readonly server: Server
  /** Resolves when the changes that are at work have ended and are answered. */
  settled(): Promise<unknown>
}

/** Serves the page and its questions. Nothing is kept between requests. */
export function createConsole(api: Api, access: Access): Console {
  const changes = new Set<Promise<void>>()
  const server = createServer((request, response) => {
    const responding = respond(request, response, { api, access })
    if (request.method !== 'POST') return
    changes.add(responding)
    void responding.finally(() => changes.delete(responding))
  })
  // Node reports with this event that it could not accept a connection. Without a listener it would end the process.
  server.on('error', () => undefined)
  return { server, settled: () => Promise.allSettled(changes) }
}

async function respond(
  request: IncomingMessage,
  response: ServerResponse,
  { api, access }: { readonly api: Api; readonly access: Access },
): Promise<void> {
  for (const [name, value] of Object.entries(HEADERS)) response.setHeader(name, value)
  response.on('error', () => undefined)
  const { headers, method = 'GET' } = request
  const url = urlOf(request)
  const refused = refusalOf({ method, path: url.pathname, headers }, access)
  if (refused !== undefined) {
    return send(response, refused.status, { error: refused.message })
  }
  try {
    if (!url.pathname.startsWith('/api/')) return await sendFile(response, url.pathname)
    const name = url.pathname.slice('/api/'.length)
    const body = method === 'POST' ? await readJson(request) : undefined
    send(response, 200, await api.answer({ name, query: url.searchParams, body }))
  } catch (error) {
    if (error instanceof Refused) {
      // If the request was not read to its end, its connection is closed, so that the rest is not taken for a new request.
      if (!request.complete) response.setHeader('connection', 'close')
      return send(response, error.status, { error: error.message })
    }
    const { exitCode, message } = toShownFailure(error)
    send(response, exitCode === EXIT.usage ? 400 : 503, { error: message })
  }
}

/** Clients may send any target, also one that is not an address. */
function urlOf({ url = '/' }: IncomingMessage): URL {
  const base = 'http://console'
  return new URL(URL.canParse(url, base) ? url : '/no-address', base)
}

function send(response: ServerResponse, status: number, value: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json; charset=utf-8' })
  // Characters that hide or reorder text are escaped here, because the page shows texts unchanged.
  response.end(toJson(visibleDeep(value)))
}

async function sendFile(response: ServerResponse, path: string): Promise<void> {
  const file = Object.hasOwn(FILES, path) ? FILES[path] : undefined
  if (file === undefined) throw new Refused(404, 'There is no such page.')
  const bytes = await readFile(new URL(file, PAGE))
  response.writeHead(200, { 'content-type': TYPES[file.split('.').at(-1) ?? ''] ?? '' })
  response.end(bytes)
}

/** Reads the body of a request, up to its largest allowed size. */
async function readJson(request: IncomingMessage): Promise<unknown> {
  const text = await new Promise<string>((resolve, reject) => {
    const chunks: Buffer[] = []
    let size = 0
    request.on('error', reject)
    request.on('end', () => resolve(Buffer.concat(chunks).toString()))
    request.on('data', (chunk: Buffer) => {
      size += chunk.byteLength
      if (size <= MOST_BYTES) return void chunks.push(chunk)
      request.pause()
      reject(new Refused(413, 'The request is too large.'))
    })
  })
  try {
    return JSON.parse(text)
  } catch {
    throw new Refused(400, 'Send JSON.')
  }
}
