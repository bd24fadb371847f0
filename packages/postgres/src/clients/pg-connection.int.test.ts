import { createGuard } from '@onceward/core'
import { portOf } from '@onceward/core/adapter'
import { Pool } from 'pg'
import { expect, test } from 'vitest'
import { dyingServer } from '../fixtures/dying-server.ts'
import { pgInbox } from '../pg.ts'

// Red (an uncaught error, which ends the process) when the first listener comes after the connection.
test('a server that dies with its last packet of the handshake gives StoreUnavailableError', async () => {
  await using server = await dyingServer('connected')
  const pool = new Pool({ connectionString: server.url })
  pool.on('error', () => undefined)
  const guard = createGuard({ consumer: 'billing', inbox: pgInbox(pool) }, () => undefined)
  const failure = { code: 'ONCEWARD_STORE_UNAVAILABLE' }
  await expect(portOf(guard).open()).rejects.toMatchObject(failure)
  await pool.end()
})
