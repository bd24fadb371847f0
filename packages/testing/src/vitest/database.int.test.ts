import pg from 'pg'
import { expect, inject, test } from 'vitest'
import { database } from './database.ts'

test('every call returns another empty database on the shared server', async () => {
  const urls = [await database(), await database()].map(({ url }) => new URL(url))
  expect(new Set(urls.map(({ pathname }) => pathname)).size).toBe(2)
  const shared = new URL(inject('postgresUrl'))
  for (const url of urls) {
    expect(url.host).toBe(shared.host)
    const client = new pg.Client({ connectionString: url.href })
    await client.connect()
    const { rows } = await client.query("select from pg_tables where schemaname = 'public'")
    await client.end()
    expect(rows).toEqual([])
  }
})
