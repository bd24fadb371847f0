import express from 'express'
import { Pool } from 'pg'

const pool = new Pool({ connectionString: process.env.DATABASE_URL })
const app = express()
app.post('/webhooks', express.json(), async (request, response) => {
  const { orderId, cents } = request.body.data
  await pool.query('insert into charges (order_id, cents) values ($1, $2)', [orderId, cents])
  response.sendStatus(200)
})
app.listen(Number(process.env.PORT))
