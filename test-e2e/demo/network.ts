import type { Socket } from 'node:net'
import { type WordMatcher, watchSockets } from '@onceward/testing/wire'
import { tell } from './signals.ts'

/** How long an acknowledgement takes to the broker. Meanwhile the work is done and not acknowledged. */
export const ACK_LATENCY_MS = 40

/** Slows acknowledgements on the sockets of this process, and tells the parent of each. */
export function slowAcks(isAck: WordMatcher): void {
  watchSockets({
    onWrite: (socket, bytes) => {
      if (isAck(bytes)) {
        tell({ kind: 'before-ack' })
        holdBack(socket)
      }
      return undefined
    },
  })
}

/** Delays what is written now, and everything written after it. */
function holdBack(socket: Socket): void {
  if (socket.writableCorked > 0) return
  socket.cork()
  setTimeout(() => socket.uncork(), ACK_LATENCY_MS)
}
