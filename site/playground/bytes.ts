const toBinary = (bytes: Uint8Array): string =>
  Array.from(bytes, (byte) => String.fromCharCode(byte)).join('')

const fromBinary = (text: string): Uint8Array =>
  Uint8Array.from(text, (letter) => letter.charCodeAt(0) & 0xff)

const ENCODERS: Readonly<Record<string, (text: string) => Uint8Array>> = {
  utf8: (text) => new TextEncoder().encode(text),
  latin1: fromBinary,
  hex: (text) => Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16)),
  base64: (text) => fromBinary(atob(text.replaceAll('-', '+').replaceAll('_', '/'))),
}

const DECODERS: Readonly<Record<string, (bytes: Uint8Array) => string>> = {
  utf8: (bytes) => new TextDecoder().decode(bytes),
  latin1: toBinary,
  hex: (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join(''),
  base64: (bytes) => btoa(toBinary(bytes)),
}

const nameOf = (encoding: string): string => {
  const name = encoding.replace('utf-8', 'utf8').replace('base64url', 'base64')
  if (!(name in ENCODERS)) throw new Error(`The playground has no encoding ${encoding}.`)
  return name
}

/** As much of Node's `Buffer` as the core uses. */
export class Bytes extends Uint8Array {
  static override from(source: unknown, encoding: unknown = 'utf8', length?: number): Bytes {
    if (typeof source === 'string')
      return Bytes.of(...(ENCODERS[nameOf(String(encoding))]?.(source) ?? []))
    if (source instanceof ArrayBuffer) {
      const start = typeof encoding === 'number' ? encoding : 0
      return new Bytes(source, start, length)
    }
    return Bytes.of(...(source as Iterable<number>))
  }

  static override of(...bytes: readonly number[]): Bytes {
    const made = new Bytes(bytes.length)
    made.set(bytes)
    return made
  }

  static alloc(size: number): Bytes {
    return new Bytes(size)
  }

  static allocUnsafe(size: number): Bytes {
    return new Bytes(size)
  }

  static byteLength(text: string): number {
    return new TextEncoder().encode(text).length
  }

  static isBuffer(value: unknown): value is Bytes {
    return value instanceof Bytes
  }

  static concat(parts: readonly Uint8Array[]): Bytes {
    return Bytes.of(...parts.flatMap((part) => [...part]))
  }

  override toString(encoding = 'utf8'): string {
    return DECODERS[nameOf(encoding)]?.(this) ?? ''
  }

  write(text: string, offset = 0): number {
    const bytes = new TextEncoder().encode(text)
    this.set(bytes, offset)
    return bytes.length
  }

  writeUInt32BE(value: number, offset = 0): number {
    new DataView(this.buffer, this.byteOffset, this.byteLength).setUint32(offset, value)
    return offset + 4
  }
}
