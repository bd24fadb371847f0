import { finished, Transform, type TransformCallback } from 'node:stream'
import { ConfigurationError } from '@onceward/core'
import { andThen, type MaybeAsync } from '@onceward/core/edge'
import type {
  FastifyInstance,
  FastifyReply,
  FastifyRequest,
  preParsingHookHandler,
  RequestPayload,
} from 'fastify'
import { isBodyless, toNodeHeaders } from '../answer/reply.ts'
import { type HttpGuard, runningOf } from '../http-guard.ts'
import { LARGEST_BODY } from '../options.ts'
import { BodyTooLargeError, joined, keptBytes } from '../request/request.ts'
import { fromIncomingMessage } from './incoming-message.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** True: {@link rawBodies} keeps the bytes for this route, also where something wraps its handler. */
    onceward?: boolean | undefined
  }
}

type Route = (request: FastifyRequest, reply: FastifyReply) => Promise<FastifyReply>

/** The handlers of guarded routes, by which {@link rawBodies} knows them, and the `maxBodyBytes` of each. */
const routes = new WeakMap<object, number>()
/** The bytes of requests to guarded routes. */
const bodies = new WeakMap<object, RawBody>()

/**
 * A route of Fastify 5: `app.post('/charges', fastifyRoute(charge))`. Fastify parses every body, so register
 * {@link rawBodies} before the route. An error that the handler throws goes to the error handler of the application.
 *
 * @throws {@link ConfigurationError}, also to the error handler at a request whose bytes were not kept.
 */
export function fastifyRoute(guard: HttpGuard): Route {
  const running = runningOf('fastifyRoute', guard)
  const route: Route = async (request, reply) => {
    const body = bodies.get(request) ?? bodyOfNest(request)
    if (body === undefined) throw new ConfigurationError(UNREGISTERED)
    const { originalUrl: target, raw } = request
    const readBytes = (mostBytes: number): MaybeAsync<Uint8Array> =>
      andThen(body.bytes(), (bytes) => keptBytes(bytes, mostBytes))
    const { isInflated } = body
    const parts = { original: request, response: reply.raw, target, readBytes, isInflated }
    const outcome = await running.handle(fromIncomingMessage(raw, parts))
    if (outcome.kind === 'threw') throw outcome.error
    const { reply: answer } = outcome
    reply.code(answer.status).headers(toNodeHeaders(answer))
    return reply.send(isBodyless(answer.status) ? undefined : Buffer.from(answer.body))
  }
  routes.set(route, running.maxBodyBytes)
  return route
}

/** NestJS with `rawBody: true` keeps the bytes itself, as they are after an inflating hook. */
function bodyOfNest(request: FastifyRequest): Pick<RawBody, 'bytes' | 'isInflated'> | undefined {
  const { rawBody } = request as { readonly rawBody?: unknown }
  if (!(rawBody instanceof Uint8Array)) return undefined
  return { bytes: () => rawBody, isInflated: false }
}

const UNREGISTERED =
  'fastifyRoute needs the bytes of the body. Write `await app.register(rawBodies)` before the route, with `rawBodies` of @onceward/http/fastify. If something wraps the handler of the route, such as @fastify/otel, say so in the options of the route: `{ config: { onceward: true } }`. In NestJS, create the application with `{ rawBody: true }`.'

/**
 * A plugin that keeps the bytes of bodies for guarded routes, and for no others: `await app.register(rawBodies)`.
 * Routes that are registered before it are not seen. A route whose handler something else wraps, such as @fastify/otel,
 * needs `{ config: { onceward: true } }`.
 */
export async function rawBodies(app: FastifyInstance): Promise<void> {
  app.addHook('onRoute', (options) => {
    const isMarked = options.config?.onceward === true
    const mostBytes = routes.get(options.handler) ?? (isMarked ? LARGEST_BODY : undefined)
    if (mostBytes === undefined) return
    const before = options.preParsing ?? []
    options.preParsing = [...(Array.isArray(before) ? before : [before]), keepBytes(mostBytes)]
  })
}
// The hook must see the routes of the application that registers the plugin, and of all below.
Object.defineProperty(rawBodies, Symbol.for('skip-override'), { value: true })
Object.defineProperty(rawBodies, Symbol.for('fastify.display-name'), {
  value: 'onceward-raw-bodies',
})

const keepBytes =
  (mostBytes: number): preParsingHookHandler =>
  (request, reply, payload, done) => {
    // A hook before this one has put its own stream in place of the request, such as one that inflates it.
    const body = new RawBody(mostBytes, payload === request.raw ? undefined : payload)
    bodies.set(request, body)
    reply.raw.once('finish', () => body.leave())
    finished(payload, { writable: false }, (error) => void (error && body.destroy(error)))
    // If a parser leaves the body unread, nothing else listens for this error, and it would end the process.
    body.on('error', () => undefined)
    done(null, payload.pipe(body))
  }

/** Keeps what passes through to Fastify's parser. */
class RawBody extends Transform {
  #mostBytes: number
  readonly #inflating: { readonly receivedEncodedLength?: number } | undefined
  #chunks: Uint8Array[] = []
  #length = 0

  /** @param inflating - What the body comes from, if that is not the request itself. */
  constructor(mostBytes: number, inflating: RequestPayload | undefined) {
    super()
    this.#mostBytes = mostBytes
    this.#inflating = inflating
  }

  get isInflated(): boolean {
    return this.#inflating !== undefined
  }

  /** Fastify compares it with the length that the client declared. */
  get receivedEncodedLength(): number {
    return this.#inflating?.receivedEncodedLength ?? this.#length
  }

  /**
   * After the answer. Node takes an unread body off its connection, except one that was piped: no other request
   * could follow. Nothing of it is kept.
   */
  leave(): void {
    if (!this.readableDidRead) this.#mostBytes = -1
    this.resume()
  }

  override _transform(chunk: Uint8Array, _encoding: string, callback: TransformCallback): void {
    this.#length += chunk.byteLength
    if (this.#isTooLarge) this.#chunks = []
    else this.#chunks.push(chunk)
    callback(null, chunk)
  }

  /** @throws {@link BodyTooLargeError}, and the error of a client that hung up. */
  bytes(): MaybeAsync<Uint8Array> {
    return this.writableFinished ? this.#kept() : this.#readOn()
  }

  /** A parser may leave the body unread. */
  async #readOn(): Promise<Uint8Array> {
    for await (const _ of this) if (this.#isTooLarge) break
    return this.#kept()
  }

  #kept(): Uint8Array {
    if (this.#isTooLarge) throw new BodyTooLargeError()
    return joined(this.#chunks, this.#length)
  }

  get #isTooLarge(): boolean {
    return this.#length > this.#mostBytes
  }
}
