import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'

/** A port on which connections are neither accepted nor refused. */
export interface Unaccepting {
  stop(): Promise<void>
}

/** A thread that listens and then never looks again. */
const LISTENER = `
  const { createServer } = require('node:net')
  const { parentPort, workerData } = require('node:worker_threads')
  createServer().listen({ port: workerData, host: '127.0.0.1', backlog: 1 }, () => {
    parentPort.postMessage('listening')
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
  })`

/** The kernel completes this many connections itself, one more than the backlog says. */
const BACKLOG = 2
/** On loopback a connection that is not established by then waits in vain. */
const FULL_MS = 200

/** Listens on `port` as a server that has stopped accepting, whose queue of connections is full. */
export async function unaccepting(port: number): Promise<Unaccepting> {
  const listener = new Worker(LISTENER, { eval: true, workerData: port })
  await once(listener, 'message')
  const fillers = Array.from({ length: BACKLOG }, () => {
    const socket = connect({ host: '127.0.0.1', port })
    socket.on('error', () => undefined)
    return socket
  })
  await Promise.race([
    Promise.all(fillers.map((filler) => once(filler, 'connect'))),
    sleep(FULL_MS, undefined, { ref: false }),
  ])
  return {
    stop: async () => {
      for (const filler of fillers) filler.destroy()
      await listener.terminate()
    },
  }
}
