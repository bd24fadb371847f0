/** Characters of one piece, about: what is written before the event loop gets its turn. */
const PIECE_CHARACTERS = 32_768
/** The same for what adds few characters: containers, and members that are left out. */
const PIECE_STEPS = 4_096

/** A container that is being written. */
interface Frame {
  readonly container: object
  /** Names of an object, in the order of RFC 8785; undefined for an array. */
  readonly keys: readonly string[] | undefined
  /** Members of the container. */
  readonly length: number
  /** The next member. */
  index: number
  /** Whether a member was written, so that the next one needs a comma. */
  hasWritten: boolean
}

/**
 * The text of a value after RFC 8785, in pieces: each takes a few milliseconds at most, whatever the value, so that
 * one large message does not hold up all others of the process. Written without recursion, because a message may nest
 * deeper than the stack.
 *
 * Treats values as `JSON.stringify` does: `toJSON` is called; `undefined`, functions and symbols are left out.
 */
export class CanonicalJson {
  readonly #open: Frame[] = []
  #text = ''
  /** A container on the way down, and its depth: meeting it again below means a circle (Brent's algorithm). */
  #marked: unknown
  #markedDepth = 0

  readonly #onUnseen: (value: object | bigint) => void

  /**
   * @param onUnseen - Called with each object that has no members to write, and with each bigint that has no JSON.
   * @throws TypeError | RangeError for what has no text, here or in {@link next}.
   */
  constructor(root: unknown, onUnseen: (value: object | bigint) => void = () => undefined) {
    this.#onUnseen = onUnseen
    this.#write(unwrapped(root), root)
  }

  /** Whether the last piece was returned. */
  get isOver(): boolean {
    return this.#open.length === 0 && this.#text === ''
  }

  /** The next piece, which may be empty; undefined after the last one. */
  next(): string | undefined {
    for (let step = 0; step < PIECE_STEPS && this.#text.length < PIECE_CHARACTERS; step++) {
      const frame = this.#open.at(-1)
      if (frame === undefined) break
      if (frame.index < frame.length) this.#writeMember(frame)
      else this.#close(frame)
    }
    const text = this.#text
    this.#text = ''
    return text === '' && this.#open.length === 0 ? undefined : text
  }

  #close({ keys }: Frame): void {
    this.#text += keys === undefined ? ']' : '}'
    this.#open.pop()
    if (this.#open.length < this.#markedDepth) this.#marked = undefined
  }

  #writeMember(frame: Frame): void {
    const { container, keys, index } = frame
    frame.index += 1
    if (keys === undefined) {
      const element: unknown = (container as readonly unknown[])[index]
      const value = unwrapped(element)
      if (index > 0) this.#text += ','
      this.#write(hasText(value) ? value : null, element)
      return
    }
    const key = keys[index] ?? ''
    const member = (container as Readonly<Record<string, unknown>>)[key]
    const value = unwrapped(member)
    const isContainer = typeof value === 'object' && value !== null
    const text = isContainer ? '' : this.#textOf(value)
    if (text === undefined) return
    this.#text += frame.hasWritten ? `,${textOf(key)}:${text}` : `${textOf(key)}:${text}`
    frame.hasWritten = true
    if (isContainer) this.#begin(value, member)
  }

  /** @param origin - What the value was before `toJSON`. */
  #write(value: unknown, origin: unknown): void {
    if (typeof value === 'object' && value !== null) this.#begin(value, origin)
    else this.#text += this.#textOf(value) ?? ''
  }

  #textOf(value: unknown): string | undefined {
    if (typeof value === 'bigint' && !('toJSON' in BigInt.prototype)) this.#onUnseen(value)
    return textOf(value)
  }

  #begin(container: object, origin: unknown): void {
    const marked = this.#marked
    if (marked === container || marked === origin) throw circular()
    const depth = this.#open.length
    if (marked === undefined || depth >= this.#markedDepth * 2) {
      this.#marked = origin
      this.#markedDepth = depth + 1
    }
    const keys = Array.isArray(container) ? undefined : sortedKeys(container)
    if (keys?.length === 0) this.#onUnseen(container)
    this.#text += keys === undefined ? '[' : '{'
    const length = keys?.length ?? (container as readonly unknown[]).length
    this.#open.push({ container, keys, length, index: 0, hasWritten: false })
  }
}

/** Names in the order of RFC 8785. Most producers write them in one order, which is often this one. */
function sortedKeys(container: object): readonly string[] {
  const keys = Object.keys(container)
  for (let at = 1; at < keys.length; at++) {
    if ((keys[at - 1] ?? '') > (keys[at] ?? '')) return keys.sort()
  }
  return keys
}

const circular = (): TypeError => new TypeError('The value contains itself.')

/** Longest chain of objects whose `toJSON` answers the next one. */
const LONGEST_CHAIN = 1_000

/** The value that stands for this one in JSON. */
function unwrapped(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  const plain = 'toJSON' in value ? fromToJson(value) : value
  if (plain instanceof Number || plain instanceof String || plain instanceof Boolean) {
    return plain.valueOf()
  }
  return plain
}

function fromToJson(value: unknown): unknown {
  let plain = value
  for (let link = 0; hasToJson(plain); link++) {
    if (link === LONGEST_CHAIN) throw circular()
    plain = plain.toJSON()
  }
  return plain
}

function hasToJson(value: unknown): value is { readonly toJSON: () => unknown } {
  if (typeof value !== 'object' || value === null || !('toJSON' in value)) return false
  return typeof value.toJSON === 'function'
}

/** What JSON leaves out of objects, and writes as null in arrays, has no text. */
const hasText = (value: unknown): boolean =>
  value !== undefined && typeof value !== 'function' && typeof value !== 'symbol'

/** The text of what is no container; undefined if there is none, as for a function. */
function textOf(value: unknown): string | undefined {
  if (typeof value === 'string' && !value.isWellFormed()) {
    throw new RangeError('RFC 8785 has no text for a lone surrogate.')
  }
  if (typeof value === 'number' && !Number.isFinite(value)) {
    throw new RangeError(`RFC 8785 has no text for ${value}.`)
  }
  return JSON.stringify(value)
}
