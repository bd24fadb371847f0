import type { EventEmitter } from 'node:events'
import { type Runtime, systemRuntime } from '@onceward/core/ports'

/** A runtime that knows its timers, also those that do not keep the process alive. */
export function watchedRuntime(): { readonly runtime: Runtime; readonly timers: Set<object> } {
  const timers = new Set<object>()
  const setTimer: Runtime['setTimer'] = (callback, delayMs, options) => {
    const timer = {}
    timers.add(timer)
    const fire = (): void => {
      timers.delete(timer)
      callback()
    }
    const cancel = systemRuntime.setTimer(fire, delayMs, options)
    return () => {
      timers.delete(timer)
      cancel()
    }
  }
  return { runtime: { ...systemRuntime, setTimer }, timers }
}

/** Timers, connections and servers that keep the process alive. */
export function resources(): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const name of process.getActiveResourcesInfo()) {
    if (/^(TCPSocketWrap|TLSWrap|Timeout)$/.test(name)) {
      counts[name] = (counts[name] ?? 0) + 1
    }
  }
  return counts
}

export function listenersOf(
  emitters: Readonly<Record<string, EventEmitter>>,
): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const [name, emitter] of Object.entries(emitters)) {
    for (const event of emitter.eventNames()) {
      counts[`${name}: ${String(event)}`] = emitter.listenerCount(event)
    }
  }
  return counts
}
