/*
 * A client of pg tells by an event that its connection has failed. Where nobody listens, that event ends the process.
 * The pool listens while a client is idle. Whoever has taken a client must listen too.
 */

import { hasMethod } from '@onceward/core/adapter'

type Listener = (value: unknown) => void

interface Emitter {
  on(event: string, listener: Listener): unknown
  removeListener(event: string, listener: Listener): unknown
}

/** Other clients of PostgreSQL have no such events. */
function isEmitter(value: object): value is Emitter {
  return hasMethod(value, 'on') && hasMethod(value, 'removeListener')
}

function noop(): void {}

/** From now on a connection that is lost does not end the process. Call the answer before the client is released. */
export function surviveLoss(client: object): () => void {
  if (!isEmitter(client)) return noop
  client.on('error', noop)
  return () => void client.removeListener('error', noop)
}

const lasting = new WeakSet<object>()

/** As {@link surviveLoss}, for good: where nobody else takes the client, listening anew would cost every transaction. */
export function alwaysSurviveLoss(client: object): void {
  if (lasting.has(client)) return
  lasting.add(client)
  surviveLoss(client)
}

const survivors = new WeakSet<object>()

/**
 * A server that shuts down during a connect may report so in the packet that completes the handshake, before the caller
 * can add a listener. Without this listener the unhandled error would end the process.
 */
export function surviveConnecting(pool: object): void {
  if (survivors.has(pool) || !isEmitter(pool)) return
  survivors.add(pool)
  pool.on('connect', (client) => {
    const undo = surviveLoss(client as object)
    setImmediate(undo)
  })
}
