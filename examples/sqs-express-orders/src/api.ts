import { once } from 'node:events'
import { SendMessageCommand } from '@aws-sdk/client-sqs'
import express from 'express'
import { Pool } from 'pg'
import { databaseUrl, queueUrl, sqs } from './settings.ts'

const pool = new Pool({ connectionString: databaseUrl })
const QueueUrl = await queueUrl()
const app = express()

// A client that gets no answer sends its order again, and then there are two messages. The worker charges one.
app.post('/orders', express.text({ type: 'application/json' }), async (request, response) => {
  await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: request.body }))
  response.status(202).end()
})

app.get('/orders/:id', async ({ params }, response) => {
  const text = 'select order_id, cents from charges where order_id = $1'
  const { rows } = await pool.query(text, [params.id])
  response.status(rows.length === 0 ? 404 : 200).json(rows)
})

const port = Number(process.env.PORT ?? 3000)
const server = app.listen(port, () => console.log(`api on http://localhost:${port}`))
await once(process, 'SIGTERM')
server.close()
await once(server, 'close')
await pool.end()
