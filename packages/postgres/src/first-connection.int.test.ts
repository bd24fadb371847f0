import { ConfigurationError, StoreUnavailableError } from '@onceward/core'
import { systemRuntime } from '@onceward/core/ports'
import { database } from '@onceward/testing'
import { registration } from '@onceward/testing/conformance'
import pg from 'pg'
import { expect, it } from 'vitest'
import { pgInbox } from './pg.ts'

async function openingAt(part: 'pathname' | 'username' | 'port', value: string): Promise<unknown> {
  const url = new URL((await database()).url)
  url[part] = value
  const pool = new pg.Pool({ connectionString: url.href })
  const opening = pgInbox(pool).open(registration(systemRuntime))
  const end = await opening.catch((error: unknown) => error)
  await pool.end()
  return end
}

// Red when a worker waits for ever for what no waiting repairs.
it.each([
  ['pathname', 'database "nosuch" does not exist'],
  ['username', 'PostgreSQL refused the login'],
] as const)('a pool with a wrong %s fails the start', async (part, message) => {
  const end = await openingAt(part, 'nosuch')
  expect(end).toBeInstanceOf(ConfigurationError)
  expect(end).toMatchObject({ message: expect.stringContaining(message) })
})

it('a server that is down is an outage', async () => {
  expect(await openingAt('port', '1')).toBeInstanceOf(StoreUnavailableError)
})
