import { Pool } from 'pg'
import { createCharges } from './charges.ts'
import { databaseUrl } from './settings.ts'

// pg, because onceward does not run on Bun.sql.
const pool = new Pool({ connectionString: databaseUrl })
const charges = createCharges(pool)
const server = Bun.serve({
  port: Number(process.env.PORT ?? 3000),
  routes: { '/charges': { POST: (request) => charges.fetch(request) } },
})
console.log(`${server.url}charges`)

process.once('SIGTERM', async () => {
  // Requests in hand are answered first.
  await server.stop()
  await charges.close()
  await pool.end()
})
