import { subscribe } from 'node:diagnostics_channel'
import type { Socket } from 'node:net'
import type { WireWords, WordMatcher } from '../../brokers/broker.ts'
import type { Word } from '../workers/protocol.ts'
import type { Crashes } from './crash.ts'

/**
 * Places a crash between a client and the kernel: the client has written the word, and from then on no byte of that
 * connection leaves the process. Covers the connections that are opened from now on.
 */
export function watchWire(wireWords: WireWords, crash: Crashes): void {
  const words = Object.entries(wireWords) as readonly (readonly [Word, WordMatcher])[]
  subscribe('net.client.socket', (message) => {
    const { socket } = message as { readonly socket: Socket }
    // Not before the next tick: connecting gives the socket its own `write` back.
    process.nextTick(() => listen(socket, words, crash))
  })
}

function listen(
  socket: Socket,
  words: readonly (readonly [Word, WordMatcher])[],
  crash: Crashes,
): void {
  const write = socket.write.bind(socket) as (...args: readonly unknown[]) => boolean
  socket.write = (data: Uint8Array | string, ...rest: readonly unknown[]): boolean => {
    for (const [word, matches] of words) {
      if (!crash.isExpected(word) || !matches(Buffer.from(data as string))) continue
      socket.cork()
      void crash.at(word, crash.armed)
    }
    return write(data, ...rest)
  }
}
