/** One message of the protocol of PostgreSQL, in either direction. */
export interface Frame {
  /** Its first byte, as a letter. */
  readonly type: string
  readonly body: Buffer
}

const HEAD = 5
/** A longer message is skipped: it is data and no command. */
const LONGEST = 1_048_576

/** Cuts the bytes of one direction into messages. */
export class Frames {
  #rest: Buffer = Buffer.alloc(0)
  #skip = 0

  take(bytes: Buffer): readonly Frame[] {
    let left = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes])
    const frames: Frame[] = []
    while (true) {
      const skipped = Math.min(this.#skip, left.length)
      this.#skip -= skipped
      left = left.subarray(skipped)
      if (this.#skip > 0 || left.length < HEAD) break
      const length = left.readUInt32BE(1) + 1
      const type = String.fromCharCode(left[0] ?? 0)
      if (length > LONGEST) {
        this.#skip = length
        continue
      }
      if (left.length < length) break
      frames.push({ type, body: left.subarray(HEAD, length) })
      left = left.subarray(length)
    }
    // The client may use its buffer again.
    this.#rest = Buffer.from(left)
    return frames
  }
}

/** The text that ends with a zero byte, and what follows it. */
export function zeroTerminated(body: Buffer, from = 0): readonly [text: string, next: number] {
  const end = body.indexOf(0, from)
  if (end < 0) return [body.toString('utf8', from), body.length]
  return [body.toString('utf8', from, end), end + 1]
}

/** A value that is longer identifies no event. */
const LONGEST_VALUE = 4_096

/** The parameters of a Bind message that are short texts. */
export function boundValues(body: Buffer, from: number): readonly string[] {
  let at = from
  const next16 = (): number => {
    const value = at + 2 <= body.length ? body.readInt16BE(at) : 0
    at += 2
    return value
  }
  for (let formats = next16(); formats > 0; formats -= 1) at += 2
  const values: string[] = []
  for (let left = next16(); left > 0 && at + 4 <= body.length; left -= 1) {
    const length = body.readInt32BE(at)
    at += 4
    if (length <= 0) continue
    if (length <= LONGEST_VALUE) values.push(body.toString('utf8', at, at + length))
    at += length
  }
  return values
}
