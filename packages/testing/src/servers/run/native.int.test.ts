// @module-tag nightly

import { existsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import pg from 'pg'
import { expect, test } from 'vitest'
import { postgres } from '../postgres/postgres.ts'
import { retryTakenPort } from './native.ts'
import { freePort } from './ports.ts'
import { ServerStartError } from './server.ts'

test('the error of a server that does not start contains the end of its log, and the log file stays', async () => {
  const failed = postgres({ native: true, settings: { shared_buffers: 'plenty' } })
  const error = await failed.catch((reason: unknown) => reason)
  expect(error).toBeInstanceOf(ServerStartError)
  const { message } = error as ServerStartError
  expect(message).toContain('invalid value for parameter "shared_buffers": "plenty"')
  const log = /^--- (.+)$/m.exec(message)?.[1] as string
  expect(existsSync(log)).toBe(true)
  await rm(dirname(log), { recursive: true })
})

test('stop removes the directory of the server, even if the server was killed before', async () => {
  const server = await postgres({ native: true })
  const client = new pg.Client({ connectionString: server.connection.url })
  await client.connect()
  client.on('error', () => undefined)
  const { rows } = await client.query("select current_setting('data_directory') as data")
  const directory = dirname(rows[0].data)
  expect(existsSync(directory)).toBe(true)
  await server.kill('SIGKILL')
  await server.stop()
  expect(existsSync(directory)).toBe(false)
})

test('a port that was taken before the server started is replaced by another', async () => {
  const messages = ['bind: Address already in use', 'listen EADDRINUSE: 127.0.0.1']
  const start = async (): Promise<string> => {
    const message = messages.shift()
    if (message !== undefined) throw new ServerStartError(message)
    return 'started'
  }
  await expect(retryTakenPort(start)).resolves.toBe('started')
})

test('any other failure to start is not retried', async () => {
  let attempts = 0
  const start = async (): Promise<never> => {
    attempts += 1
    throw new ServerStartError('out of memory')
  }
  await expect(retryTakenPort(start)).rejects.toThrow('out of memory')
  expect(attempts).toBe(1)
})

test('ports are below the range of outgoing connections', async () => {
  const ports = await Promise.all(Array.from({ length: 20 }, freePort))
  expect(Math.max(...ports)).toBeLessThan(32_768)
})

// Red without the reservation: of 400 out of 12,000 two are almost always the same.
test('a port is given out once, even while nothing listens on it', async () => {
  const ports = await Promise.all(Array.from({ length: 400 }, freePort))
  expect(new Set(ports).size).toBe(400)
})
