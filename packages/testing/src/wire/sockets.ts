import { Socket } from 'node:net'

/** What is told of the sockets of this process. Nothing may be thrown: the caller is the client library. */
export interface SocketWatch {
  /**
   * Called before each write.
   *
   * @returns what is called when the kernel has the bytes, if anything.
   */
  readonly onWrite?: ((socket: Socket, bytes: Buffer) => (() => void) | undefined) | undefined
  /** Called with what has arrived, before the client library sees it. */
  readonly onRead?: ((socket: Socket, bytes: Buffer) => void) | undefined
}

type Write = (this: Socket, ...args: unknown[]) => boolean
type Push = (this: Socket, chunk: unknown, encoding?: BufferEncoding) => boolean

/**
 * Watches all sockets of this process, also those that are open. A socket with TLS is seen without its encryption, and below
 * it the one that carries the encrypted bytes. Clients that are native code have sockets of their own, which nothing here sees.
 */
export function watchSockets({ onRead, onWrite }: SocketWatch): void {
  const prototype = Socket.prototype as unknown as { write: Write; push: Push }
  const { push, write } = prototype
  if (onWrite !== undefined) {
    // Connecting gives a socket the `write` of the prototype back: one of the socket itself would be lost.
    prototype.write = function (this: Socket, ...args): boolean {
      const told = onWrite(this, bytesOf(args[0], args[1]))
      return write.apply(this, told === undefined ? args : withCallback(args, told))
    }
  }
  if (onRead !== undefined) {
    prototype.push = function (this: Socket, chunk, encoding): boolean {
      if (chunk !== null && chunk !== undefined) onRead(this, bytesOf(chunk, encoding))
      return push.call(this, chunk, encoding)
    }
  }
}

function bytesOf(chunk: unknown, encoding: unknown): Buffer {
  if (typeof chunk === 'string') {
    return Buffer.from(chunk, typeof encoding === 'string' ? (encoding as BufferEncoding) : 'utf8')
  }
  if (!(chunk instanceof Uint8Array)) return Buffer.alloc(0)
  return Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
}

/** The arguments of `write(chunk, encoding?, callback?)`. */
function withCallback(args: readonly unknown[], told: () => void): unknown[] {
  const [chunk, second, third] = args
  const given = [second, third].find((each) => typeof each === 'function')
  const callback = (...answer: readonly unknown[]): void => {
    told()
    if (given !== undefined) Reflect.apply(given as () => void, undefined, answer)
  }
  return [chunk, typeof second === 'string' ? second : undefined, callback]
}
