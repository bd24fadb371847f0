import { once } from 'node:events'
import { Pool } from 'pg'
import { createApp } from './app.ts'
import { databaseUrl } from './settings.ts'
import { createStripeWebhook } from './webhook.ts'

const pool = new Pool({ connectionString: databaseUrl })
const stripe = createStripeWebhook(pool)
const port = Number(process.env.PORT ?? 3000)
const server = createApp(stripe).listen(port)
console.log(`http://localhost:${port}/webhooks/stripe`)

await once(process, 'SIGTERM')
server.close()
// Deliveries in hand are answered first.
await stripe.close()
await pool.end()
