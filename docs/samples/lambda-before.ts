import type { SQSEvent } from 'aws-lambda'
import { Pool } from 'pg'

const charge = 'insert into charges select * from json_populate_record(null::charges, $1)'
const pool = new Pool({ connectionString: process.env.DATABASE_URL, max: 2 })

export async function handler({ Records }: SQSEvent): Promise<void> {
  for (const { body } of Records) {
    await pool.query(charge, [JSON.parse(body)])
  }
}
