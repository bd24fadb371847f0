import { createServer, type Server } from 'node:net'
import { createGuard } from '@onceward/core'
import { portOf } from '@onceward/core/adapter'
import { Pool } from 'pg'
import { expect, test } from 'vitest'
import { pgInbox } from '../pg.ts'

function message(type: string, body: Buffer): Buffer {
  const length = Buffer.alloc(4)
  length.writeUInt32BE(body.length + 4)
  return Buffer.concat([Buffer.from(type), length, body])
}

const AUTHENTICATION_OK = message('R', Buffer.alloc(4))
const READY = message('Z', Buffer.from('I'))
const FATAL = message('E', Buffer.from('SFATAL\0C57P01\0Mthe postmaster is gone\0\0'))

/** Lets every client in, and is gone in the same packet: what a server killed by SIGKILL does now and then. */
async function dyingServer(): Promise<Server> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined)
    socket.once('data', () => socket.end(Buffer.concat([AUTHENTICATION_OK, READY, FATAL])))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return server
}

// Red (an uncaught error, which ends the process) when the first listener comes after the connection.
test('a server that dies in the packet that ends the handshake is a failure of the store', async () => {
  const server = await dyingServer()
  const address = server.address()
  const port = typeof address === 'object' ? address?.port : undefined
  const pool = new Pool({ host: '127.0.0.1', port, user: 'nobody', ssl: false })
  pool.on('error', () => undefined)
  try {
    const guard = createGuard({ consumer: 'billing', inbox: pgInbox(pool) }, () => undefined)
    const failure = { code: 'ONCEWARD_STORE_UNAVAILABLE' }
    await expect(portOf(guard).open()).rejects.toMatchObject(failure)
  } finally {
    await pool.end()
    server.close()
  }
})
