import { unreservedHeaders } from '../model/delivery.ts'
import { OutboxError } from '../model/errors.ts'
import type { CollectedMessage, OutboxMessage } from '../model/outbox.ts'
import { payloadJson } from './outbox-payload.ts'
import { givenContentType } from './outgoing-headers.ts'
import { shown } from './shown.ts'
import { nameProblems } from './wrong-arguments.ts'

/** Payload and headers of one message, bytes: what SQS takes, and Kafka by default. */
export const MESSAGE_LIMIT_BYTES: number = 1024 * 1024
const KEY_LIMIT_BYTES = 1_024
const MOST_HEADERS = 64
const YEAR_MS = 31_536_000_000

const NAMES: readonly (keyof OutboxMessage)[] = [
  ...(['to', 'key', 'payload', 'headers', 'type', 'delayMs', 'id'] as const),
]

/** Of HTTP, and allowed by every broker. */
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$/
/** A line break would end the header. */
const HEADER_VALUE = /^[^\p{Cc}]*$/u
/** Headers by which receivers tell messages apart. */
const RESERVED =
  /^(?:idempotency-key|webhook-(?:id|timestamp|signature)|(?:ce[-_]|cloudevents[:_]).*)$/i

const printable = (most: number): RegExp => new RegExp(`^[\\x21-\\x7e]{1,${most}}$`)
const DESTINATION = printable(100)
export const DESTINATION_NAME = '1–100 printable ASCII characters without spaces'
export const isDestination = (name: unknown): boolean => fits(name, DESTINATION)
const TYPE = printable(255)
const ID = printable(128)

/** Who sends a message. */
export interface Sender {
  readonly source: string
  readonly event?: string | undefined
  /** The id of a message that has none of its own. */
  readonly newId: () => string
}

/**
 * Checks a message and copies what is stored of it, because the handler may change its objects afterwards.
 *
 * @throws {@link OutboxError} that says what to change, and shows no payload.
 */
export function toCollected(
  message: OutboxMessage,
  { event, newId, source }: Sender,
): CollectedMessage {
  if (typeof message !== 'object' || message === null) {
    throw wrong('expected an object `{ to, payload }`', message)
  }
  const [problem] = nameProblems('outbox.send', message, NAMES)
  if (problem !== undefined) throw new OutboxError(problem)
  const { delayMs = 0, headers: given = {}, id, key, to, type = to } = message
  const name = 'printable ASCII characters without spaces'
  if (!isDestination(to)) throw wrong(`expected \`to\` to be ${DESTINATION_NAME}`, to)
  if (!fits(type, TYPE)) throw wrong(`expected \`type\` to be 1–255 ${name}`, type)
  if (id !== undefined && !fits(id, ID)) throw wrong(`expected \`id\` to be 1–128 ${name}`, id)
  if (key !== undefined && !isKey(key)) {
    throw wrong(`expected \`key\` to be well-formed text of 1–${KEY_LIMIT_BYTES} bytes`, key)
  }
  const isTime = Number.isSafeInteger(delayMs) && delayMs >= 0 && delayMs <= YEAR_MS
  if (!isTime) throw wrong(`expected \`delayMs\` to be an integer from 0 to ${YEAR_MS}`, delayMs)
  const { headerBytes, headers } = checkedHeaders(given)
  const { isJson, payload } = payloadOf(message.payload, givenContentType(headers))
  const bytes = payload.byteLength + headerBytes
  if (bytes > MESSAGE_LIMIT_BYTES) {
    throw new OutboxError(
      `The message to "${to}" has ${bytes} bytes, more than ${MESSAGE_LIMIT_BYTES}. Store the data and send where it is.`,
    )
  }
  const kept = { to, key, type, source, event, headers, isJson, payload, delayMs }
  return { id: id ?? newId(), ...kept }
}

const JSON_TYPE = /^application\/(?:[\w.+-]+\+)?json(?:;|$)/i

/** Bytes, and a text whose content type is no JSON, leave as they are. */
function payloadOf(
  payload: unknown,
  contentType: string | undefined,
): Pick<CollectedMessage, 'isJson' | 'payload'> {
  if (payload instanceof Uint8Array) return { isJson: false, payload: Uint8Array.from(payload) }
  const isText = typeof payload === 'string' && contentType !== undefined
  if (!isText || JSON_TYPE.test(contentType)) return { isJson: true, payload: payloadJson(payload) }
  if (payload.isWellFormed()) return { isJson: false, payload: Buffer.from(payload) }
  throw new OutboxError(
    'The payload of the message is no well-formed text: send plain data or bytes.',
  )
}

const fits = (value: unknown, pattern: RegExp): value is string =>
  typeof value === 'string' && pattern.test(value)

function isKey(key: unknown): key is string {
  if (typeof key !== 'string' || key === '' || !key.isWellFormed()) return false
  return Buffer.byteLength(key) <= KEY_LIMIT_BYTES
}

interface CheckedHeaders {
  readonly headers: Readonly<Record<string, string>>
  readonly headerBytes: number
}

/** Without those of onceward: a handler passes headers on that another program copied from a dead letter. */
function checkedHeaders(given: unknown): CheckedHeaders {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    throw wrong('expected `headers` to be an object of texts', given)
  }
  const headers = unreservedHeaders(given as Record<string, string>)
  const all = Object.entries(headers)
  if (all.length > MOST_HEADERS) {
    throw new OutboxError(`A message may have ${MOST_HEADERS} headers, not ${all.length}.`)
  }
  let headerBytes = 0
  for (const [name, value] of all) {
    if (RESERVED.test(name)) {
      throw new OutboxError(
        `The header "${name}" is set by onceward, because receivers know the message by it: give \`id\` or \`type\` instead.`,
      )
    }
    const isFit = HEADER_NAME.test(name) && fits(value, HEADER_VALUE) && value.isWellFormed()
    if (!isFit) {
      throw new OutboxError(
        `The header "${shown(name)}" cannot be sent: its name must be a token of HTTP, its value well-formed text without control characters.`,
      )
    }
    headerBytes += name.length + Buffer.byteLength(value)
  }
  return { headers, headerBytes }
}

/** Never shows what is inside of an object. */
function wrong(expected: string, got: unknown): OutboxError {
  const what =
    typeof got === 'string' || typeof got === 'number' ? `\`${shown(String(got))}\`` : typeOf(got)
  return new OutboxError(`The message cannot be sent: ${expected}, got ${what}.`)
}

const typeOf = (value: unknown): string => (value === null ? 'null' : typeof value)
