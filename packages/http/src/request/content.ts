import { hash } from 'node:crypto'
import { InvalidPayloadError, type Json } from '@onceward/core'
import {
  afterAnswer,
  andThen,
  type Decoded,
  decodeJson,
  type MaybeAsync,
} from '@onceward/core/edge'
import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { Exchange } from './exchange.ts'
import { type HttpRequest, headerOf, type IncomingRequest } from './request.ts'

/**
 * The parts of a request that its fingerprint is computed from: method, route and canonical body. If canonical JSON
 * cannot represent the body exactly, the hash of its bytes is used.
 */
export type Content = {
  readonly method: string
  readonly route: string
} & ({ readonly json: Json } | { readonly sha256: string })

/** What is compared of a request, and its payload: what `decode` returned, and after the schema what that returned. */
export interface DecodedRequest {
  readonly content: Content
  readonly payload: unknown
}

type Schema = StandardSchemaV1<unknown, unknown>

export type Decode = (bytes: Uint8Array, request: HttpRequest) => unknown

/** What the user has set for the body of requests. */
export interface Reading {
  readonly decode?: Decode | undefined
  readonly schema?: unknown
}

/**
 * @param bytes - The body without its content coding.
 * @throws {@link InvalidPayloadError} for a body that is not JSON. Passes on what the user's `decode` throws.
 */
export function decodeRequest(
  { request, target: route }: Pick<Exchange, 'request' | 'target'>,
  bytes: Uint8Array,
  { decode, schema }: Reading,
): MaybeAsync<DecodedRequest> {
  const { method } = request
  const asked = { method, route }
  const byBytes = (): Content => ({ ...asked, sha256: hash('sha256', bytes, 'hex') })
  if (decode !== undefined) {
    const content = byBytes()
    // A copy, because decoders may work in place, and what is stored to run later must be the bytes that came.
    return afterAnswer(decode(bytes.slice(), request), (payload) => ({ content, payload }))
  }
  return andThen(jsonOf(bytes), ({ isExact, value: payload }) => {
    if (!isExact || hasSurrogates(bytes)) return { content: byBytes(), payload }
    const json = (schema === undefined ? payload : parsedAgain(bytes, payload)) as Json
    return { content: { ...asked, json }, payload }
  })
}

function jsonOf(bytes: Uint8Array): MaybeAsync<Decoded> {
  try {
    return decodeJson(bytes)
  } catch (cause) {
    throw new InvalidPayloadError('The body is not JSON in UTF-8.', { cause })
  }
}

/** Not the value that the schema gets: validators such as Ajv fill in defaults in place, which must not be compared. */
function parsedAgain(bytes: Uint8Array, value: unknown): unknown {
  return typeof value === 'object' && value !== null ? JSON.parse(utf8.decode(bytes)) : value
}

const utf8 = new TextDecoder()

/** Lone surrogates have no canonical text. In UTF-8 they can only be written as escapes. */
function hasSurrogates(bytes: Uint8Array): boolean {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  return ['\\ud', '\\uD'].some((beginning) => view.includes(beginning))
}

/** The user's schema sees the decoded body. What is compared is from before it. */
export function ofRequest(schema: Schema | undefined): Schema {
  return {
    '~standard': {
      version: 1,
      vendor: 'onceward',
      validate: (decoded) => {
        const { content, payload } = decoded as DecodedRequest
        if (schema === undefined) return { value: decoded }
        return afterAnswer(schema['~standard'].validate(payload), (result) =>
          'value' in Object(result) && !result.issues
            ? { value: { content, payload: (result as { readonly value: unknown }).value } }
            : (result as { readonly issues: readonly { readonly message: string }[] }),
        )
      },
    },
  }
}

/** What is fingerprinted of a request. */
export function compared(
  { content, payload }: DecodedRequest,
  fingerprint: 'body' | 'none' | ((payload: unknown) => unknown) | undefined,
): unknown {
  if (typeof fingerprint !== 'function') return content
  const { method, route } = content
  return afterAnswer(fingerprint(payload), (of) => ({ method, route, of }))
}

const JSON_TYPE = /^application\/(?:[\w.+-]+\+)?json$/

/** Whether the default decoder can read such a body. A body without a type is taken for JSON. */
export function isJsonType(contentType: string | undefined): boolean {
  if (contentType === 'application/json') return true
  const [type = '', ...parameters] = (contentType ?? '').toLowerCase().split(';')
  if (type.trim() === '') return true
  const charset = parameters.map((each) => each.trim()).find((each) => each.startsWith('charset='))
  const isUtf8 = charset === undefined || /^charset="?utf-?8"?$/.test(charset)
  return JSON_TYPE.test(type.trim()) && isUtf8
}

const CODINGS: readonly string[] = ['', 'identity', 'gzip', 'x-gzip', 'deflate', 'br']

/** Whether the guard can make the body itself of the bytes. */
export function isKnownCoding(contentEncoding: string | undefined): boolean {
  const codings = contentEncoding?.toLowerCase().split(',') ?? []
  return codings.every((coding) => CODINGS.includes(coding.trim()))
}

/** The content coding of the bytes. Undefined if they are the body itself. */
export function codingOf(incoming: IncomingRequest): string | undefined {
  return incoming.isInflated === true ? undefined : headerOf(incoming, 'content-encoding')
}

/** Whether the default decoder can read the body. */
export function isReadable(
  incoming: IncomingRequest,
  bytes: Uint8Array,
  contentType: string | undefined,
): boolean {
  const isJson = bytes.byteLength === 0 || isJsonType(contentType)
  return isJson && isKnownCoding(codingOf(incoming))
}
