import { randomUUID } from 'node:crypto'
import express from 'express'
import { Pool } from 'pg'
import { chargeOrder } from '../order.ts'
import { settings } from './settings.ts'

const { databaseUrl, port } = settings()
const pool = new Pool({ connectionString: databaseUrl })

const app = express()
app.use(express.json())
/** The handler in a hand-written transaction. */
app.post('/charges', async (request, response) => {
  const tx = await pool.connect()
  try {
    await tx.query('begin')
    await chargeOrder(tx, request.body)
    await tx.query('commit')
    response.status(201).json({ chargeId: randomUUID() })
  } catch (error) {
    await tx.query('rollback')
    throw error
  } finally {
    tx.release()
  }
})
app.listen(port, '127.0.0.1', () => process.send?.({ kind: 'listening' }))
