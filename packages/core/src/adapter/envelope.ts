import { type Delivery, ownGetter, withGetters } from '../model/delivery.ts'
import { EnvelopeError } from '../model/errors.ts'
import { createHash, types } from '../node.ts'

/** First byte of every envelope. A reader refuses other versions. */
const VERSION = 1
const DIGEST_BYTES = 8

/** A value of {@link encode}. Tagged arrays stand for what JSON cannot say; `a` and `o` announce the values after them. */
type Token =
  | string
  | number
  | boolean
  | null
  | readonly [tag: 'u']
  | readonly [tag: 'n' | 'i' | 'b' | 'B', text: string]
  | readonly [tag: 'd', ms: number | null]
  | readonly [tag: 'a' | 'o', size: number]

/**
 * Encodes a client's message without loss: types, order, case, repetition, bytes, odd numbers and unpaired surrogates,
 * `null` and `undefined` differ. Functions and symbols become `undefined`.
 *
 * One version byte, a digest, and flat JSON: nothing recurses, so the depth of a message is not limited.
 *
 * @throws {@link EnvelopeError} for a value that contains itself.
 */
export function writeEnvelope(message: unknown): Uint8Array {
  const content = Buffer.from(JSON.stringify(encode(message)))
  return Buffer.concat([Buffer.of(VERSION), digestOf(content), content])
}

/** @throws {@link EnvelopeError} for damaged bytes and unknown versions. */
export function readEnvelope(envelope: Uint8Array): unknown {
  const bytes = Buffer.from(envelope.buffer, envelope.byteOffset, envelope.byteLength)
  const version = bytes[0]
  if (version !== VERSION) {
    throw new EnvelopeError(
      `The envelope of a stored delivery has version ${version}, and this version of onceward reads version ${VERSION}. Update onceward.`,
    )
  }
  const content = bytes.subarray(1 + DIGEST_BYTES)
  if (!digestOf(content).equals(bytes.subarray(1, 1 + DIGEST_BYTES))) throw damaged()
  try {
    return decode(JSON.parse(content.toString()) as readonly Token[])
  } catch (error) {
    throw damaged(error)
  }
}

/** Undefined if a message that the user made cannot be encoded. */
const GETTERS = [
  [
    'envelope',
    ownGetter((message: () => unknown): Uint8Array | undefined => {
      try {
        return writeEnvelope(message())
      } catch {
        return undefined
      }
    }),
  ],
] as const

/** Gives a delivery the adapter's envelope, which is made when it is read: clean deliveries must not pay for it. */
export function withEnvelope(
  delivery: Omit<Delivery, 'envelope'>,
  message: () => unknown,
): Delivery {
  return withGetters<Delivery>(delivery, message, GETTERS)
}

function digestOf(content: Uint8Array): Buffer {
  return createHash('sha256').update(content).digest().subarray(0, DIGEST_BYTES)
}

function damaged(cause?: unknown): EnvelopeError {
  return new EnvelopeError('The envelope of a stored delivery is damaged.', { cause })
}

/** Marks where a container ends, so that one that contains itself is noticed. */
class End {
  readonly of: object
  constructor(of: object) {
    this.of = of
  }
}

function encode(message: unknown): readonly Token[] {
  const tokens: Token[] = []
  const open = new Set<object>()
  const left: unknown[] = [message]
  while (left.length > 0) {
    const value = left.pop()
    if (value instanceof End) {
      open.delete(value.of)
      continue
    }
    const simple = toToken(value)
    if (simple !== undefined) {
      tokens.push(simple)
      continue
    }
    const container = value as object
    if (open.has(container)) throw new EnvelopeError('A message that contains itself.')
    open.add(container)
    left.push(new End(container))
    const isArray = Array.isArray(container)
    const parts: readonly unknown[] = isArray ? container : Object.entries(container).flat(1)
    tokens.push(isArray ? ['a', parts.length] : ['o', parts.length / 2])
    for (let index = parts.length - 1; index >= 0; index -= 1) left.push(parts[index])
  }
  return tokens
}

/** The token of a value; undefined for objects and lists. */
function toToken(value: unknown): Token | undefined {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return value
    case 'number':
      return Number.isFinite(value) && !Object.is(value, -0) ? value : ['n', numberText(value)]
    case 'bigint':
      return ['i', value.toString()]
    case 'object':
      if (value === null) return null
      if (Buffer.isBuffer(value)) return ['b', value.toString('base64')]
      if (types.isUint8Array(value)) return ['B', Buffer.from(value).toString('base64')]
      return types.isDate(value) ? ['d', value.getTime()] : undefined
    default:
      return ['u']
  }
}

const numberText = (value: number): string => (Object.is(value, -0) ? '-0' : String(value))

interface Container {
  readonly isList: boolean
  readonly parts: unknown[]
  missing: number
}

function decode(tokens: readonly Token[]): unknown {
  const containers: Container[] = []
  let place = 0
  for (;;) {
    if (place >= tokens.length) throw damaged()
    const token = tokens[place] as Token
    place += 1
    let done: unknown
    if (Array.isArray(token) && (token[0] === 'a' || token[0] === 'o')) {
      const isList = token[0] === 'a'
      const size = token[1] as number
      containers.push({ isList, parts: [], missing: isList ? size : size * 2 })
    } else {
      done = fromToken(token)
      const container = containers.at(-1)
      if (container === undefined) return done
      container.parts.push(done)
      container.missing -= 1
    }
    // A complete container is a value of the one around it.
    for (;;) {
      const container = containers.at(-1)
      if (container === undefined || container.missing > 0) break
      containers.pop()
      done = container.isList ? container.parts : toObject(container.parts)
      const around = containers.at(-1)
      if (around === undefined) return done
      around.parts.push(done)
      around.missing -= 1
    }
  }
}

/** Not by assignment, because a header may be called `__proto__`. */
function toObject(parts: readonly unknown[]): object {
  const entries: [string, unknown][] = []
  for (let index = 0; index < parts.length; index += 2) {
    entries.push([String(parts[index]), parts[index + 1]])
  }
  return Object.fromEntries(entries)
}

function fromToken(token: Token): unknown {
  if (!Array.isArray(token)) return token
  const [tag, value] = token as readonly [string, string]
  switch (tag) {
    case 'n':
      return Number(value)
    case 'i':
      return BigInt(value)
    case 'b':
      return Buffer.from(value, 'base64')
    case 'B':
      return new Uint8Array(Buffer.from(value, 'base64'))
    case 'd':
      return new Date(value === null ? Number.NaN : Number(value))
    case 'u':
      return undefined
    default:
      throw damaged()
  }
}
