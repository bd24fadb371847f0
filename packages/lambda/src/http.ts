import { endsWithin, type GuardPort, type RoutePort, routePortOf } from '@onceward/core/adapter'
import { type Fields, fieldsOf, textOf } from './fields.ts'
import { budgetOf, type LambdaContext, leftMsOf, wrongEvent } from './invocation.ts'
import { type LambdaOptions, resolveMargin } from './options.ts'

/** A guard of `createHttpGuard` or `createWebhookGuard` of `@onceward/http`. */
export interface LambdaHttpGuard {
  readonly consumer: string
  fetch(request: Request): Promise<Response>
}

/** The answer in the form that the event asks for: payload 1.0 has `multiValueHeaders`, payload 2.0 has `cookies`. */
export interface LambdaHttpResponse {
  statusCode: number
  headers?: Record<string, string>
  multiValueHeaders?: Record<string, string[]>
  cookies?: string[]
  body: string
  isBase64Encoded: boolean
}

/** A function behind an API Gateway or a function URL. */
export type LambdaHttpHandler = (
  event: object,
  context?: LambdaContext,
) => Promise<LambdaHttpResponse>

/**
 * A guarded route as a Lambda function behind an API Gateway (payload 1.0 and 2.0) or a function URL:
 * `export const handler = lambdaHttp(charge)`.
 *
 * The deadline of the handler is what the invocation has left, less `marginMs`. A handler that is cut off is rolled back
 * and its key is free again, so that a retry of the client runs at once. With less than 50 ms left, and if a store does
 * not answer in time, the answer is 503. An API Gateway itself waits 29 or 30 seconds: set the timeout of the function to
 * less, so that the answer reaches the client.
 *
 * @throws {@link ConfigurationError} here for options that cannot work; by the function for events of other sources.
 *
 * @example
 * ```ts
 * import { createHttpGuard } from '@onceward/http'
 * import { lambdaHttp } from '@onceward/lambda'
 *
 * const charge = createHttpGuard({ consumer: 'charges.create', inbox, tenant: 'none' }, async (event, { tx }) => {
 *   await tx.query('insert into charges select * from json_populate_record(null::charges, $1)', [event.payload])
 * })
 * export const handler = lambdaHttp(charge)
 * ```
 */
export function lambdaHttp(guard: LambdaHttpGuard, options: LambdaOptions = {}): LambdaHttpHandler {
  const route = routePortOf('lambdaHttp', guard)
  const marginMs = resolveMargin(options)
  const doDue = route.port.onDemand()
  return async (event, context) => {
    const incoming = readEvent(event)
    const response = await answer({ route, marginMs, doDue }, incoming, leftMsOf(context))
    return toResult(response, incoming.isFirstPayload)
  }
}

interface Parts {
  readonly route: RoutePort
  readonly marginMs: number | undefined
  readonly doDue: ReturnType<GuardPort['onDemand']>
}

/** An answer that is known is sent, whatever happens after it. */
async function answer(
  { doDue, marginMs: given, route }: Parts,
  { request }: Incoming,
  leftMs: number | undefined,
): Promise<Response> {
  const { port } = route
  if (request === undefined) return unavailable(400, 'the request cannot be read')
  if (leftMs === undefined) {
    const response = await route.fetch(request, undefined)
    await doDue()
    return response
  }
  const { budgetMs, marginMs } = budgetOf(port, leftMs, given)
  if (budgetMs === undefined) return unavailable(503, 'the function has no time left')
  const { runtime } = port
  const endsAtMs = runtime.monotonic() + budgetMs
  let response: Response | undefined
  const running = async (): Promise<void> => {
    response = await route.fetch(request, budgetMs)
    await doDue({ budgetMs: Math.max(1, endsAtMs - runtime.monotonic()) })
  }
  await endsWithin(runtime, running(), budgetMs + marginMs / 2)
  if (response !== undefined) return response
  port.logger.warn(
    { consumer: port.settings.consumer, marginMs },
    'an invocation ended before its answer was known and answers 503: check the store, or raise marginMs',
  )
  return unavailable(503, 'the outcome is not known in time; try again with the same key')
}

function unavailable(status: number, title: string): Response {
  const body = JSON.stringify({ type: 'about:blank', title, status })
  const headers = { 'content-type': 'application/problem+json', 'retry-after': '1' }
  return new Response(body, { status, headers })
}

interface Incoming {
  /** Undefined for what no request can be made of. */
  readonly request: Request | undefined
  /** Payload 1.0: headers are lists. */
  readonly isFirstPayload: boolean
}

/** @throws {@link ConfigurationError} for events of other sources. */
function readEvent(given: unknown): Incoming {
  const event = fieldsOf(given)
  const { http, domainName } = fieldsOf(event['requestContext']) as Fields
  const isFirstPayload = typeof event['httpMethod'] === 'string'
  const method = isFirstPayload ? event['httpMethod'] : fieldsOf(http)['method']
  const path = isFirstPayload ? event['path'] : event['rawPath']
  if (typeof method !== 'string' || typeof path !== 'string') {
    throw wrongEvent('lambdaHttp', 'an event of an API Gateway or a function URL')
  }
  const headers = toHeaders(event)
  const query = isFirstPayload ? queryOf(event) : (textOf(event['rawQueryString']) ?? '')
  const host = headers.get('host') ?? textOf(domainName)
  const url = urlOf(host, path, query)
  try {
    const body = ['GET', 'HEAD'].includes(method) ? {} : { body: bodyOf(event) }
    return { request: new Request(url, { method, headers, ...body }), isFirstPayload }
  } catch {
    return { request: undefined, isFirstPayload }
  }
}

/** A path that was decoded on the way must not end in a query. */
function urlOf(host: string | undefined, path: string, query: string): string {
  const target = `${path.replace(/[?#]/g, encodeURIComponent)}${query === '' ? '' : `?${query}`}`
  const rooted = target.startsWith('/') ? target : `/${target}`
  const url = `https://${host ?? 'localhost'}${rooted}`
  return URL.canParse(url) ? url : `https://localhost${rooted}`
}

/** Payload 1.0 has the query decoded, every value in a list or the last one of each name. */
function queryOf({
  multiValueQueryStringParameters: lists,
  queryStringParameters: single,
}: Fields): string {
  const query = new URLSearchParams()
  for (const [name, values] of Object.entries(fieldsOf(lists ?? single))) {
    for (const value of [values].flat()) query.append(name, textOf(value) ?? '')
  }
  return query.toString()
}

function toHeaders({ cookies, headers: single, multiValueHeaders: lists }: Fields): Headers {
  const headers = new Headers()
  for (const [name, values] of Object.entries(fieldsOf(lists ?? single))) {
    for (const value of [values].flat()) append(headers, name, textOf(value))
  }
  // Payload 2.0 takes the cookies out of the headers.
  if (Array.isArray(cookies)) append(headers, 'cookie', cookies.join('; '))
  return headers
}

/** A header that `Headers` refuses is left out: nothing else could hold it. */
function append(headers: Headers, name: string, value: string | undefined): void {
  if (value === undefined) return
  try {
    headers.append(name, value)
  } catch {
    // Its name or its value is none of a header.
  }
}

function bodyOf({ body, isBase64Encoded }: Fields): Uint8Array<ArrayBuffer> {
  if (typeof body !== 'string') return new Uint8Array()
  return new Uint8Array(Buffer.from(body, isBase64Encoded === true ? 'base64' : 'utf8'))
}

const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

async function toResult(response: Response, isFirstPayload: boolean): Promise<LambdaHttpResponse> {
  const { headers, status: statusCode } = response
  const cookies = headers.getSetCookie()
  const others = [...headers].filter(([name]) => name !== 'set-cookie')
  const body = toBody(new Uint8Array(await response.arrayBuffer()))
  if (!isFirstPayload) {
    const kept = cookies.length === 0 ? {} : { cookies }
    return { statusCode, headers: Object.fromEntries(others), ...kept, ...body }
  }
  const lists = others.map(([name, value]): [string, string[]] => [name, [value]])
  if (cookies.length > 0) lists.push(['set-cookie', cookies])
  return { statusCode, multiValueHeaders: Object.fromEntries(lists), ...body }
}

/** Text where it can be: an API Gateway decodes Base64 only for the types that it was told are binary. */
function toBody(bytes: Uint8Array): Pick<LambdaHttpResponse, 'body' | 'isBase64Encoded'> {
  try {
    return { body: UTF8.decode(bytes), isBase64Encoded: false }
  } catch {
    return { body: Buffer.from(bytes).toString('base64'), isBase64Encoded: true }
  }
}
