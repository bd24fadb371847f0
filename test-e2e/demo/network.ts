import { subscribe } from 'node:diagnostics_channel'
import type { Socket } from 'node:net'
import { tell } from './signals.ts'

/** How long an acknowledgement takes to the broker. Meanwhile the work is done and not acknowledged. */
export const ACK_LATENCY_MS = 40

/** Slows acknowledgements on the sockets that this process opens from now on, and tells the parent of each. */
export function slowAcks(isAck: (bytes: Uint8Array) => boolean): void {
  subscribe('net.client.socket', (message) => {
    const { socket } = message as { readonly socket: Socket }
    // Not earlier: connecting gives the socket its own write() back.
    socket.once('connect', () => slow(socket, isAck))
  })
}

function slow(socket: Socket, isAck: (bytes: Uint8Array) => boolean): void {
  const write = socket.write.bind(socket) as (...args: readonly unknown[]) => boolean
  socket.write = (bytes: Uint8Array | string, ...rest: readonly unknown[]): boolean => {
    if (bytes instanceof Uint8Array && isAck(bytes)) {
      tell({ kind: 'before-ack' })
      holdBack(socket)
    }
    return write(bytes, ...rest)
  }
}

/** Delays what is written now, and everything written after it. */
function holdBack(socket: Socket): void {
  if (socket.writableCorked > 0) return
  socket.cork()
  setTimeout(() => socket.uncork(), ACK_LATENCY_MS)
}
