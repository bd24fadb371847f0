import { type WordMatcher, watchSockets } from '@onceward/testing/wire'
import type { WireWords } from '../../brokers/broker.ts'
import type { Word } from '../workers/protocol.ts'
import type { Crashes } from './crash.ts'

/**
 * Places a crash between a client and the kernel: the client has written the word, and from then on no byte of that
 * connection leaves the process.
 */
export function watchWire(wireWords: WireWords, crash: Crashes): void {
  const words = Object.entries(wireWords) as readonly (readonly [Word, WordMatcher])[]
  watchSockets({
    onWrite: (socket, bytes) => {
      for (const [word, matches] of words) {
        if (!crash.isExpected(word) || !matches(bytes)) continue
        socket.cork()
        void crash.at(word, crash.armed)
      }
      return undefined
    },
  })
}
