// @module-tag nightly

import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type RequestListener } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { pingDocker } from './docker.ts'

/** Something that listens where a Docker engine would. */
async function engine(listener: RequestListener): Promise<AsyncDisposable & { host: string }> {
  const directory = await mkdtemp(join(tmpdir(), 'onceward-docker-'))
  const socket = join(directory, 'docker.sock')
  const server = createServer(listener).listen(socket)
  await once(server, 'listening')
  return {
    host: `unix://${socket}`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
      await rm(directory, { recursive: true })
    },
  }
}

test('an engine that answers its ping is used', async () => {
  const asked: (string | undefined)[] = []
  await using docker = await engine((request, response) => {
    asked.push(request.url)
    response.end('OK')
  })
  expect(await pingDocker(docker.host)).toBe(true)
  expect(asked).toEqual(['/_ping'])
})

test('an engine that refuses, hangs or does not exist is given up quickly', async () => {
  await using broken = await engine((_request, response) => response.writeHead(500).end())
  await using silent = await engine(() => undefined)
  expect(await pingDocker(broken.host)).toBe(false)
  expect(await pingDocker(silent.host)).toBe(false)
  expect(await pingDocker('unix:///nowhere/docker.sock')).toBe(false)
  expect(await pingDocker('tcp://127.0.0.1:1')).toBe(false)
})
