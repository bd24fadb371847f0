import type { EventEmitter } from 'node:events'
import { readdirSync } from 'node:fs'
import { heapBytes } from '@onceward/testing/heap'

/** What a process holds on to. */
export interface ProcessUsage {
  /** In use after a collection of all garbage. */
  readonly heapBytes: number
  /** What the event loop knows of: sockets, timers, pipes. */
  readonly handles: number
  /** Of these the sockets. */
  readonly connections: number
  /** On the process and on all of its sockets and pipes. */
  readonly listeners: number
  readonly fileDescriptors: number
}

/** Of this process. */
export function measureUsage(): ProcessUsage {
  const resources = process.getActiveResourcesInfo()
  return {
    heapBytes: heapBytes(),
    handles: resources.length,
    connections: resources.filter((kind) => kind === 'TCPSocketWrap').length,
    listeners: [process, ...activeHandles()].reduce((sum, each) => sum + listenersOf(each), 0),
    fileDescriptors: readdirSync('/proc/self/fd').length,
  }
}

/** Node has no public way to get at the sockets themselves. */
function activeHandles(): readonly EventEmitter[] {
  const { _getActiveHandles: handles } = process as unknown as {
    readonly _getActiveHandles: () => readonly object[]
  }
  return handles().filter((each): each is EventEmitter => 'eventNames' in each)
}

function listenersOf(emitter: EventEmitter): number {
  return emitter.eventNames().reduce((sum, name) => sum + emitter.listenerCount(name), 0)
}
