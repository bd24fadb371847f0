/**
 * Doubles hold every decimal of 15 digits, so shorter numbers without an exponent need no look. Only what follows white
 * space, a bracket, a comma or a colon can be a number: most ids hold a digit before an e.
 */
const MAY_BE_ROUNDED = /(?:^|[\s[,:])-?[0-9](?:[0-9.]{15}|[0-9.]*[eE])/
const ALWAYS_HELD_DIGITS = 15
/** Between 10⁻²⁹⁰ and 10²⁹⁰ no double is subnormal or infinite. */
const NORMAL_EXPONENT = 290

/** Characters that are read before the event loop gets its turn. */
const PART_CHARACTERS = 65_536

const [QUOTE, BACKSLASH, POINT, ZERO, NINE] = [0x22, 0x5c, 0x2e, 0x30, 0x39]

/** False for most texts, without reading them number by number. */
export function mayHoldRounded(text: string): boolean {
  return MAY_BE_ROUNDED.test(text)
}

/**
 * Looks through JSON text for a number that is another one after `JSON.parse`, in parts. Each character is read a
 * fixed number of times, whatever the text.
 */
export class RoundedNumbers {
  readonly #text: string
  #at = 0

  /** @param text - Must be valid JSON. */
  constructor(text: string) {
    this.#text = text
  }

  /** Reads the next part; whether it holds such a number, or undefined when there is more to read. */
  next(): boolean | undefined {
    const text = this.#text
    const end = this.#at + PART_CHARACTERS
    while (this.#at < text.length) {
      if (this.#at >= end) return undefined
      const code = text.charCodeAt(this.#at)
      if (code === QUOTE) this.#at = afterString(text, this.#at + 1)
      else if (isDigit(code)) {
        const start = this.#at
        this.#at = afterNumber(text, start)
        if (!isHeld(text, start, this.#at)) return true
      } else this.#at += 1
    }
    return false
  }
}

const isDigit = (code: number): boolean => code >= ZERO && code <= NINE

/** @param at - Behind the opening quote. */
function afterString(text: string, at: number): number {
  let next = at
  for (;;) {
    const code = text.charCodeAt(next)
    if (code === QUOTE || next >= text.length) return next + 1
    next += code === BACKSLASH ? 2 : 1
  }
}

/** In valid JSON what follows a number is white space, a comma, a bracket or the end of the text, whose code is NaN. */
function afterNumber(text: string, at: number): number {
  let next = at + 1
  while (isOfNumber(text.charCodeAt(next))) next += 1
  return next
}

/** A digit, a point, an e or a sign. */
const isOfNumber = (code: number): boolean =>
  isDigit(code) ||
  code === POINT ||
  code === 0x65 ||
  code === 0x45 ||
  code === 0x2b ||
  code === 0x2d

/** A positive decimal number: its digits from the first to the last that is not zero, and where its point is. */
interface Decimal {
  /** Significant digits; 0 for zero. */
  readonly digits: number
  /** Place of the first significant digit, and behind the last one. */
  readonly from: number
  readonly to: number
  /** The power of ten of the first significant digit. */
  readonly exponent: number
}

function decimalIn(text: string, start: number, end: number): Decimal {
  let [digits, zeros, from, to, scale] = [0, 0, start, start, 0]
  let isFraction = false
  let at = start
  for (; at < end; at++) {
    const code = text.charCodeAt(at)
    if (code === POINT) isFraction = true
    else if (!isDigit(code)) break
    else {
      if (isFraction) scale -= 1
      if (code === ZERO) zeros += digits === 0 ? 0 : 1
      else {
        if (digits === 0) from = at
        digits += zeros + 1
        zeros = 0
        to = at + 1
      }
    }
  }
  const power = at < end ? Number(text.slice(at + 1, end)) : 0
  return { digits, from, to, exponent: power + scale + zeros + digits - 1 }
}

/** Whether a double holds the number: whether its shortest spelling is the same decimal number. */
function isHeld(text: string, start: number, end: number): boolean {
  const { digits, from, to, exponent } = decimalIn(text, start, end)
  if (digits === 0) return true
  if (digits <= ALWAYS_HELD_DIGITS && Math.abs(exponent) <= NORMAL_EXPONENT) return true
  const shortest = String(Number(text.slice(start, end)))
  const held = decimalIn(shortest, 0, shortest.length)
  return (
    held.exponent === exponent &&
    shortest.slice(held.from, held.to).replace('.', '') === text.slice(from, to).replace('.', '')
  )
}
