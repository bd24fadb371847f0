import { connect } from 'node:net'

/** What to send to a server, and what its answer must look like. */
export interface Greeting {
  readonly host: string
  readonly port: number
  readonly send: string
  expect(answer: string): boolean
}

const PROBE_DEADLINE_MS = 5_000

/** Rejects unless the server answers the greeting as its protocol wants. */
export function probeTcp(greeting: Greeting): Promise<void> {
  const { host, port } = greeting
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port, timeout: PROBE_DEADLINE_MS })
    const settle = (error?: Error): void => {
      socket.destroy()
      if (error === undefined) resolve()
      else reject(error)
    }
    socket.once('connect', () => socket.write(greeting.send, 'latin1'))
    socket.once('data', (chunk) => {
      const answer = chunk.toString('latin1')
      settle(greeting.expect(answer) ? undefined : new Error(`answered ${answer}`))
    })
    socket.once('error', settle)
    socket.once('timeout', () => settle(new Error(`${host}:${port} does not answer`)))
    socket.once('close', () => settle(new Error(`${host}:${port} closed the connection`)))
  })
}
