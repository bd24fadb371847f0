import { EventEmitter } from 'node:events'
import type { AmqpConnection } from '../client.ts'

type Listener = Parameters<EventEmitter['on']>[1]

/**
 * Listens to a channel or a connection, and returns what ends that. Above ten listeners of one event Node warns of a
 * leak, so the limit rises with each consumer on it.
 */
export function listenTo(
  emitter: Pick<AmqpConnection, 'on' | 'removeListener'>,
  listeners: Readonly<Record<string, (...args: never[]) => void>>,
): () => void {
  const entries = Object.entries(listeners)
  let isListening = true
  raiseLimit(emitter, 1)
  for (const [event, listener] of entries) emitter.on(event, listener as Listener)
  return () => {
    if (!isListening) return
    isListening = false
    for (const [event, listener] of entries) {
      emitter.removeListener?.(event, listener as Listener)
    }
    raiseLimit(emitter, -1)
  }
}

const HEARD = new WeakSet<object>()

/** Node ends the process at an error event without a listener. From here on it does not, for errors of this emitter. */
export function keepHeard(emitter: Pick<AmqpConnection, 'on'>): void {
  if (HEARD.has(emitter)) return
  HEARD.add(emitter)
  raiseLimit(emitter, 1)
  emitter.on('error', () => undefined)
}

function raiseLimit(emitter: unknown, by: 1 | -1): void {
  // Zero means no limit.
  if (!(emitter instanceof EventEmitter) || emitter.getMaxListeners() === 0) return
  emitter.setMaxListeners(emitter.getMaxListeners() + by)
}
