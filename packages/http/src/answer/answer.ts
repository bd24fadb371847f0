import { types } from 'node:util'
import type { Json } from '@onceward/core'
import { quoted } from '@onceward/core/adapter'
import { type MaybeAsync, RESULT_LIMIT_BYTES } from '@onceward/core/edge'
import { toJsonText } from '@onceward/core/ports'
import { AnswerError } from './answer-error.ts'
import { type GivenHeaders, type HeaderList, listed } from './headers.ts'
import { type HttpProblem, lowerCased, PROBLEM_TYPE, problemText } from './problem.ts'
import { type Body, type HttpReply, isBodyless, type OwnBytes } from './reply.ts'
import { readBuffered } from './response-body.ts'

/** What a handler answers. */
export interface HttpAnswer {
  /** 200–599. Default: 200, or 204 without a body. */
  readonly status?: number | undefined
  readonly headers?: GivenHeaders
  /** Bytes and texts are sent as they are, every other value as JSON. Left out: no body. */
  readonly body?: unknown
}

/** An answer as the inbox keeps it beside the key: what a retry gets. */
export interface StoredAnswer {
  readonly v: 1
  readonly status: number
  readonly headers: HeaderList
  /** A body that is UTF-8, else `base64`. */
  readonly text?: string
  readonly base64?: string
}

/** An answer that may be committed: the stored part, and the whole for the client that waits. */
export interface CheckedAnswer {
  readonly stored: StoredAnswer
  readonly reply: HttpReply
}

/**
 * Checks everything that could fail after the commit: status, headers, and that the whole body is there and fits.
 *
 * @param storedHeaders - Lower-case names of the headers that retries get again.
 * @throws {@link AnswerError}
 */
export function checkAnswer(
  answer: unknown,
  storedHeaders: ReadonlySet<string>,
): MaybeAsync<CheckedAnswer> {
  return isResponse(answer)
    ? fromResponse(answer).then((parts) => checkParts(parts, storedHeaders))
    : checkParts(fromObject(answer), storedHeaders)
}

function checkParts(
  { body, headers, status }: Parts,
  storedHeaders: ReadonlySet<string>,
): CheckedAnswer {
  checkStatus(status)
  if (isBodyless(status) && body.length > 0) {
    throw new AnswerError(`An answer of status ${status} has no body. Use another status.`)
  }
  const kept = headers.filter(([name]) => storedHeaders.has(name))
  const stored: StoredAnswer = { v: 1, status, headers: kept, ...storedBody(body) }
  checkSize(stored)
  return { stored, reply: { status, headers, body } }
}

function checkSize(stored: StoredAnswer): void {
  const bytes = Buffer.byteLength(JSON.stringify(stored))
  if (bytes <= RESULT_LIMIT_BYTES) return
  throw new AnswerError(
    `The answer takes ${bytes} bytes to store, more than ${RESULT_LIMIT_BYTES}. Answer with less, for example with a link to the result.`,
  )
}

/** A problem as an answer that is stored. */
export function checkProblem(
  problem: HttpProblem,
  storedHeaders: ReadonlySet<string>,
): CheckedAnswer {
  const { headers, status } = problem
  const body = problemText(problem)
  const typed = { ...lowerCased(headers), 'content-type': PROBLEM_TYPE }
  return checkParts(fromObject({ status, headers: typed, body }), storedHeaders)
}

/** The whole answer of a result that this process made. JSON has no symbols, so it is not stored. */
const FULL_REPLY = Symbol('onceward.full-reply')

/** An answer as the result of its event: what is stored, with the whole answer for the client that waits. */
export const toResult = ({ reply, stored }: CheckedAnswer): Json =>
  Object.defineProperty({ ...stored }, FULL_REPLY, { value: reply }) as unknown as Json

/** The whole answer, if this process made the result. */
export const fullReplyOf = (result: unknown): HttpReply | undefined =>
  (Object(result) as { readonly [FULL_REPLY]?: HttpReply })[FULL_REPLY]

/** The reply of a stored answer. Undefined if the stored value is not an answer, or was written by a later version. */
export function replyOf(stored: unknown): HttpReply | undefined {
  const { base64, headers, status, text, v } = Object(stored) as Partial<StoredAnswer>
  if (v !== 1 || status === undefined || headers === undefined) return undefined
  return { status, headers, body: base64 === undefined ? (text ?? '') : bytesOf(base64) }
}

const bytesOf = (base64: string): OwnBytes => Uint8Array.from(Buffer.from(base64, 'base64'))

interface Parts {
  readonly status: number
  readonly headers: HeaderList
  readonly body: Body
}

const isResponse = (answer: unknown): answer is Response =>
  answer instanceof Response || Object.prototype.toString.call(answer) === '[object Response]'

async function fromResponse(response: Response): Promise<Parts> {
  const { headers, status } = response
  const read = await readBuffered(response, RESULT_LIMIT_BYTES)
  if (read.kind !== 'body') throw new AnswerError(UNBUFFERED[read.kind])
  return { status, headers: listed(headers), body: read.bytes }
}

const STREAM =
  'The body of the answer is a stream, so a retry could not get it again. Answer with JSON, a text or bytes.'

const UNBUFFERED = {
  stream: STREAM,
  used: 'The body of the Response was read before. Return a new Response.',
  failed: 'The body of the Response could not be read. Answer with JSON, a text or bytes.',
  large: `The body of the Response has more than ${RESULT_LIMIT_BYTES} bytes. Answer with less, for example with a link to the result.`,
} as const

const KNOWN: readonly string[] = ['status', 'headers', 'body']
const EXAMPLE = 'Return `{ status, headers, body }`, a Response, or nothing.'

function fromObject(answer: unknown): Parts {
  if (answer === undefined) return { status: 204, headers: [], body: '' }
  if (typeof answer !== 'object' || answer === null || Array.isArray(answer)) {
    throw new AnswerError(
      `The handler returned ${answer === null ? 'null' : Array.isArray(answer) ? 'an array' : `a ${typeof answer}`}. ${EXAMPLE}`,
    )
  }
  const unknown = Object.keys(answer).filter((name) => !KNOWN.includes(name))
  if (unknown.length > 0) {
    const names = unknown.slice(0, 5).map((name) => name.slice(0, 50))
    throw new AnswerError(
      `The handler returned an object with ${names.map((name) => `"${name}"`).join(', ')}, which is not part of an answer. ${EXAMPLE}`,
    )
  }
  if (isOther(answer)) {
    throw new AnswerError(`The handler returned an instance of ${nameOf(answer)}. ${EXAMPLE}`)
  }
  const { body, headers, status } = answer as HttpAnswer
  const [sent, type] = encoded(body)
  const given = listed(headers)
  const hasType = given.some(([name]) => name === 'content-type')
  return {
    status: status ?? (body === undefined ? 204 : 200),
    headers: hasType || type === undefined ? given : [...given, ['content-type', type]],
    body: sent,
  }
}

/** An Error, a Map, a row whose columns are getters: nothing of it would be in the answer. */
function isOther(answer: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(answer)
  const isPlain = prototype === null || prototype === Object.prototype
  return !isPlain && !KNOWN.some((name) => name in answer)
}

const nameOf = (value: unknown): string =>
  String(Reflect.get(Object(value), 'constructor')?.name).slice(0, 50)

type Encoded = readonly [body: Body, type: string | undefined]

function encoded(body: unknown): Encoded {
  if (body === undefined) return ['', undefined]
  if (typeof body === 'string') return [sendable(body), 'text/plain; charset=utf-8']
  const bytes = bytesCopied(body)
  if (bytes !== undefined) return [bytes, 'application/octet-stream']
  if (isStream(body)) throw new AnswerError(STREAM)
  let text: string | undefined
  try {
    text = toJsonText(body)
  } catch (cause) {
    throw new AnswerError(
      'The body of the answer is not JSON: it refers to itself or nests too deep.',
      { cause },
    )
  }
  if (text === '{}' && !isPlain(body)) throw new AnswerError(emptyJson(body))
  if (text !== undefined) return [sendable(text), 'application/json; charset=utf-8']
  throw new AnswerError(`The body of the answer is a ${typeof body}. Use JSON, a text or bytes.`)
}

/** A copy, because the handler may keep its own. */
function bytesCopied(body: unknown): OwnBytes | undefined {
  if (ArrayBuffer.isView(body)) {
    return Uint8Array.from(new Uint8Array(body.buffer, body.byteOffset, body.byteLength))
  }
  return types.isAnyArrayBuffer(body) ? Uint8Array.from(new Uint8Array(body)) : undefined
}

function isPlain(body: unknown): boolean {
  const prototype: unknown = Object.getPrototypeOf(body)
  if (typeof Reflect.get(Object(body), 'toJSON') === 'function') return true
  return prototype === null || Object.getPrototypeOf(prototype) === null
}

/** A promise that was not awaited, a Map or a form: its content would be lost silently. */
function emptyJson(body: unknown): string {
  return `The body of the answer is an instance of ${nameOf(body)}, whose JSON is \`{}\`. Await it, or make an object, a text or bytes of it.`
}

/** UTF-8 has no bytes for a lone surrogate, so a replacement character is sent and stored. */
const sendable = (text: string): string => text.toWellFormed()

function isStream(body: unknown): boolean {
  if (typeof body !== 'object' || body === null) return false
  return ['getReader', 'pipe', Symbol.asyncIterator, 'arrayBuffer', 'next'].some(
    (method) => typeof Reflect.get(body, method) === 'function',
  )
}

/** A byte order mark is part of the body. */
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

function storedBody(body: Body): Pick<StoredAnswer, 'text' | 'base64'> {
  if (body.length === 0) return {}
  if (typeof body === 'string') return { text: body }
  try {
    return { text: utf8.decode(body) }
  } catch {
    return { base64: Buffer.from(body).toString('base64') }
  }
}

function checkStatus(status: unknown): void {
  if (Number.isInteger(status) && Number(status) >= 200 && Number(status) <= 599) return
  throw new AnswerError(
    `Expected \`status\` of the answer to be an integer from 200 to 599, got ${quoted(status)}.`,
  )
}
