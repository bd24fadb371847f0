// @module-tag nightly

import { cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { expect, test } from 'vitest'
import { proxy, swallowReplyTo } from '../run/proxy.ts'
import { nativePostgres, type PostgresServer, postgres } from './postgres.ts'
import { postgresBinaries, prepareBinaries } from './postgres-binaries.ts'

async function rows(url: string, text: string): Promise<unknown[]> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query({ text, rowMode: 'array' })).rows
  } finally {
    await client.end()
  }
}

async function answers(server: PostgresServer): Promise<boolean> {
  return rows(server.connection.url, 'select 1').then(
    () => true,
    () => false,
  )
}

test('a killed Postgres restarts on its port with everything that was committed', async ({
  skip,
}) => {
  await using server = await postgres({ settings: { work_mem: '5MB' } })
  skip(!server.canKill, 'the server belongs to the user')
  const url = await server.createDatabase()
  await rows(url, 'create table t as select generate_series(1, 1000) as n')
  const busy = new pg.Client({ connectionString: url })
  busy.on('error', () => undefined)
  await busy.connect()
  const cut = busy.query('select pg_sleep(60)').catch((error: Error) => error)

  await server.kill('SIGKILL')
  expect(await answers(server)).toBe(false)
  expect(await cut).toBeInstanceOf(Error)
  expect(server.pid).toBeUndefined()

  await server.restart()
  expect(server.pid).toBeGreaterThan(0)
  expect(await rows(url, 'select count(*)::int from t')).toEqual([[1000]])
  expect(await rows(url, 'show work_mem')).toEqual([['5MB']])
})

test('Postgres runs from a directory that only its owner may enter', async () => {
  const secret = await mkdtemp(join(tmpdir(), 'onceward-private-'))
  const version = `test-${process.pid}`
  try {
    const native = join(secret, 'native')
    await cp((await postgresBinaries()).native, native, {
      recursive: true,
      verbatimSymlinks: true,
    })
    const binaries = await prepareBinaries({ native, version })
    await using _template = {
      [Symbol.asyncDispose]: () => rm(binaries.template, { recursive: true }),
    }
    await using server = await nativePostgres({ listen_addresses: '127.0.0.1' }, binaries)
    expect(await rows(server.connection.url, 'select 1')).toEqual([[1]])
  } finally {
    await rm(secret, { recursive: true })
  }
}, 180_000)

test('behind swallowReplyTo a commit happens and its client never learns', async () => {
  await using server = await postgres()
  const url = await server.createDatabase()
  await rows(url, 'create table t (n int)')
  const { host, port } = server.connection
  await using through = await proxy({ host, port }, { onData: swallowReplyTo(/commit/) })
  const client = new pg.Client({
    connectionString: Object.assign(new URL(url), { host: `127.0.0.1:${through.port}` }).href,
  })
  client.on('error', () => undefined)
  await client.connect()
  await client.query('begin')
  await client.query('insert into t values (1)')
  await expect(client.query('commit')).rejects.toThrow()
  expect(await rows(url, 'select n from t')).toEqual([[1]])
})
