/** A hash with blocks of 64 bytes: its words at the start, and one block after another. */
interface Rule {
  readonly start: readonly number[]
  readonly mix: (words: Uint32Array, block: DataView) => void
}

const BLOCK = 64

const left = (word: number, by: number): number => (word << by) | (word >>> (32 - by))
const right = (word: number, by: number): number => left(word, 32 - by)

/** The first 32 bits of the fraction of a root, which is where SHA-256 takes its constants from. */
function fractions(count: number, root: (prime: number) => number): readonly number[] {
  const found: number[] = []
  for (let candidate = 2; found.length < count; candidate += 1) {
    const isPrime = Array.from({ length: candidate - 2 }, (_, at) => at + 2).every(
      (divisor) => candidate % divisor !== 0,
    )
    if (isPrime) found.push(((root(candidate) % 1) * 2 ** 32) | 0)
  }
  return found
}

const ROUNDS = fractions(64, Math.cbrt)

const SHA256: Rule = {
  start: fractions(8, Math.sqrt),
  mix: (words, block) => {
    const w = Array.from({ length: 16 }, (_, at) => block.getInt32(at * 4))
    for (let at = 16; at < 64; at += 1) {
      const [early = 0, late = 0] = [w[at - 15], w[at - 2]]
      const one = right(early, 7) ^ right(early, 18) ^ (early >>> 3)
      const other = right(late, 17) ^ right(late, 19) ^ (late >>> 10)
      w.push(((w[at - 16] ?? 0) + one + (w[at - 7] ?? 0) + other) | 0)
    }
    let [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0] = words
    for (const [at, round] of ROUNDS.entries()) {
      const high = right(e, 6) ^ right(e, 11) ^ right(e, 25)
      const one = (h + high + ((e & f) ^ (~e & g)) + round + (w[at] ?? 0)) | 0
      const low = right(a, 2) ^ right(a, 13) ^ right(a, 22)
      const other = (low + ((a & b) ^ (a & c) ^ (b & c))) | 0
      ;[h, g, f, e, d, c, b, a] = [g, f, e, (d + one) | 0, c, b, a, (one + other) | 0]
    }
    add(words, [a, b, c, d, e, f, g, h])
  },
}

const SHA1: Rule = {
  start: [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0],
  mix: (words, block) => {
    const w = Array.from({ length: 16 }, (_, at) => block.getInt32(at * 4))
    for (let at = 16; at < 80; at += 1) {
      w.push(left((w[at - 3] ?? 0) ^ (w[at - 8] ?? 0) ^ (w[at - 14] ?? 0) ^ (w[at - 16] ?? 0), 1))
    }
    let [a = 0, b = 0, c = 0, d = 0, e = 0] = words
    for (let at = 0; at < 80; at += 1) {
      const [chosen, round] =
        at < 20
          ? [(b & c) | (~b & d), 0x5a827999]
          : at < 40
            ? [b ^ c ^ d, 0x6ed9eba1]
            : at < 60
              ? [(b & c) | (b & d) | (c & d), 0x8f1bbcdc]
              : [b ^ c ^ d, 0xca62c1d6]
      const next = (left(a, 5) + chosen + e + round + (w[at] ?? 0)) | 0
      ;[e, d, c, b, a] = [d, c, left(b, 30), a, next]
    }
    add(words, [a, b, c, d, e])
  },
}

function add(words: Uint32Array, more: readonly number[]): void {
  for (const [at, word] of more.entries()) words[at] = ((words[at] ?? 0) + word) | 0
}

const RULES: Readonly<Record<string, Rule>> = { sha1: SHA1, sha256: SHA256 }

/** The digest of bytes, at once: a browser's own answers only later, and the core does not wait for it. */
export function digestOf(algorithm: string, bytes: Uint8Array): Uint8Array {
  const rule = RULES[algorithm]
  if (rule === undefined) throw new Error(`The playground has no hash ${algorithm}.`)
  const padded = new DataView(new ArrayBuffer(Math.ceil((bytes.length + 9) / BLOCK) * BLOCK))
  new Uint8Array(padded.buffer).set(bytes)
  padded.setUint8(bytes.length, 0x80)
  padded.setBigUint64(padded.byteLength - 8, BigInt(bytes.length) * 8n)
  const words = Uint32Array.from(rule.start)
  for (let at = 0; at < padded.byteLength; at += BLOCK) {
    rule.mix(words, new DataView(padded.buffer, at, BLOCK))
  }
  const digest = new DataView(new ArrayBuffer(words.length * 4))
  for (const [at, word] of words.entries()) digest.setUint32(at * 4, word)
  return new Uint8Array(digest.buffer)
}
