/*
 * A client of pg reports with an event that its connection has failed. Without a listener, that event ends the process.
 * The pool listens while a client is idle, and reports it with its own event, which ends the process in the same way.
 * While a client is taken out of the pool, its user must listen too.
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

/** As {@link surviveLoss}, for good: if no other code takes the client, a new listener per transaction is not needed. */
export function alwaysSurviveLoss(client: object): void {
  if (lasting.has(client)) return
  lasting.add(client)
  surviveLoss(client)
}

const survivors = new WeakSet<object>()

/**
 * From now on a connection that the pool loses does not end the process:
 *
 * - while it is idle, as at a restart or a failover of the server. The pool has removed it already and opens a new one. Other
 *   listeners of the pool hear of it as before.
 * - while it connects: a server that shuts down may report so in the packet that completes the handshake, before the
 *   caller can add a listener.
 */
export function survivePoolLosses(pool: object): void {
  if (survivors.has(pool) || !isEmitter(pool)) return
  survivors.add(pool)
  pool.on('error', noop)
  pool.on('connect', (client) => {
    const undo = surviveLoss(client as object)
    setImmediate(undo)
  })
}
