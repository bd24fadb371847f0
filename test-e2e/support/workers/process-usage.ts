import type { EventEmitter } from 'node:events'
import { readdirSync } from 'node:fs'
import { heapBytes } from '@onceward/testing/heap'

/** What a process holds. */
export interface ProcessUsage {
  /** Used heap after a full garbage collection. */
  readonly heapBytes: number
  /** Active resources of the event loop: sockets, timers, pipes. */
  readonly handles: number
  /** The sockets among the handles. */
  readonly connections: number
  /** Event listeners on the process and on all of its sockets and pipes. */
  readonly listeners: number
  readonly fileDescriptors: number
}

/** What this process holds now. */
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

/** Node has no public function that returns the sockets. */
function activeHandles(): readonly EventEmitter[] {
  const { _getActiveHandles: handles } = process as unknown as {
    readonly _getActiveHandles: () => readonly object[]
  }
  return handles().filter((each): each is EventEmitter => 'eventNames' in each)
}

function listenersOf(emitter: EventEmitter): number {
  return emitter.eventNames().reduce((sum, name) => sum + emitter.listenerCount(name), 0)
}
