import { afterAll, beforeAll, expect, test } from 'bun:test'
import { randomUUID } from 'node:crypto'
import { Pool } from 'pg'
import { databaseUrl } from '../src/settings.ts'

const pool = new Pool({ connectionString: databaseUrl })
let server: Bun.Subprocess<'ignore', 'pipe', 'inherit'> | undefined
let url = ''

beforeAll(async () => {
  Bun.spawnSync(['bun', 'src/setup.ts'])
  const env = { ...process.env, PORT: '0' }
  server = Bun.spawn(['bun', 'src/server.ts'], { env, stdin: 'ignore', stderr: 'inherit' })
  // The first line that it prints is its address.
  const { value } = await server.stdout.getReader().read()
  url = new TextDecoder().decode(value).trim()
})
afterAll(async () => {
  server?.kill('SIGTERM')
  await server?.exited
  await pool.end()
})

test('a client that sends its request three times, twice at once, is charged once', async () => {
  const orderId = randomUUID()
  const headers = {
    'content-type': 'application/json',
    'idempotency-key': randomUUID(),
    'x-account': 'acme',
  }
  const body = JSON.stringify({ orderId, cents: 1999 })
  const post = (): Promise<Response> => fetch(url, { method: 'POST', headers, body })

  const [first, copy] = await Promise.all([post(), post()])
  const later = await post()

  expect([first, copy, later].map(({ status }) => status)).toEqual([201, 201, 201])
  expect(later.headers.get('idempotency-replayed')).toBe('true')
  const { rows } = await pool.query('select from charges where order_id = $1', [orderId])
  expect(rows).toHaveLength(1)
})
