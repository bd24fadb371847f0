import { once } from 'node:events'
import { serve } from '@hono/node-server'
import { Pool } from 'pg'
import { createApp, createCharges } from './app.ts'
import { databaseUrl } from './settings.ts'

const pool = new Pool({ connectionString: databaseUrl })
const charges = createCharges(pool)
const port = Number(process.env.PORT ?? 3000)
const server = serve({ fetch: createApp(charges).fetch, port })
console.log(`http://localhost:${port}/charges`)

await once(process, 'SIGTERM')
server.close()
// Requests in hand are answered first.
await charges.close()
await pool.end()
