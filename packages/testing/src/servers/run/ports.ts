import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'

// Below the ephemeral range of Linux (32768) and of macOS (49152): while a server is killed, no
// outgoing connection can be given its port, and a client that retries cannot connect to itself.
const LOWEST_PORT = 20_000
const HIGHEST_PORT = 32_000

/** A port on loopback that nobody listens on and no outgoing connection will be given. */
export async function freePort(): Promise<number> {
  for (let attempt = 0; attempt < 100; attempt++) {
    const port = randomInt(LOWEST_PORT, HIGHEST_PORT)
    if (await canListen(port)) return port
  }
  throw new Error(`no free port between ${LOWEST_PORT} and ${HIGHEST_PORT}`)
}

function canListen(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}
