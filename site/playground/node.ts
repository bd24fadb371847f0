/**
 * Stands for `packages/core/src/node.ts` in a browser. What the playground never comes to, such as compressed bodies,
 * says so.
 */
import { Bytes } from './bytes.ts'
import { digestOf } from './sha.ts'

type Bits = string | Uint8Array

const bytesOf = (data: Bits): Uint8Array => (typeof data === 'string' ? Bytes.from(data) : data)

/** Runs when no promise can go on: a message of the browser comes after all of them. */
function later(callback: () => void): void {
  const { port1, port2 } = new MessageChannel()
  port1.onmessage = () => {
    port1.close()
    callback()
  }
  port2.postMessage(undefined)
}

// Globals of Node, where there are none.
globalThis.Buffer ??= Bytes as unknown as typeof Buffer
globalThis.setImmediate ??= later as unknown as typeof setImmediate
globalThis.process ??= { nextTick: later, pid: 0, versions: {} } as unknown as typeof process

/** Keeps its value until the first wait. No handler of the playground calls a guard, which is what it is for. */
export class AsyncLocalStorage<Value> {
  #value: Value | undefined

  getStore(): Value | undefined {
    return this.#value
  }

  run<Result>(value: Value, task: () => Result): Result {
    const before = this.#value
    this.#value = value
    try {
      return task()
    } finally {
      this.#value = before
    }
  }
}

export class AsyncResource {
  runInAsyncScope<Result>(task: () => Result): Result {
    return task()
  }
}

export class Console {
  log(text: string): void {
    console.log(text)
  }
}

export function hash(algorithm: string, data: Bits, as = 'hex'): string | Bytes {
  const digest = Bytes.from(digestOf(algorithm, bytesOf(data)))
  return as === 'buffer' ? digest : digest.toString(as)
}

export function createHash(algorithm: string) {
  const parts: Uint8Array[] = []
  const made = {
    update: (data: Bits) => {
      parts.push(bytesOf(data))
      return made
    },
    digest: (as = 'buffer') => hash(algorithm, Bytes.concat(parts), as),
  }
  return made
}

function missing(what: string): () => never {
  return () => {
    throw new Error(`The playground has no ${what}.`)
  }
}

export const createHmac = missing('HMAC')
export const timingSafeEqual = missing('HMAC')
export const inflate = missing('compression')
export const inflateRaw = missing('compression')
export const gunzip = missing('compression')
export const brotliDecompress = missing('compression')
export const promisify = <Task>(task: Task): Task => task

export const randomBytes = (size: number): Bytes => crypto.getRandomValues(new Bytes(size))
export const randomUUID = (): string => crypto.randomUUID()
export const hostname = (): string => 'browser'
export const constants = { signals: {} }
export const inspect = (value: unknown): string => JSON.stringify(value) ?? String(value)
export const types = {
  isDate: (value: unknown): boolean => value instanceof Date,
  isNativeError: (value: unknown): boolean => value instanceof Error,
  isUint8Array: (value: unknown): boolean => value instanceof Uint8Array,
}

/** Of JSON, which is all that the simulation compares. */
export const isDeepStrictEqual = (one: unknown, other: unknown): boolean =>
  JSON.stringify(one) === JSON.stringify(other)
