// @module-tag nightly

import { Redis } from 'ioredis'
import { expect, test } from 'vitest'
import { skipped } from '../run/server.ts'
import { redis } from './redis.ts'

test.skipIf(skipped('redis'))(
  'a killed Redis restarts on its port with every write it acknowledged',
  async ({ skip }) => {
    await using server = await redis()
    skip(!server.canKill, 'the server belongs to the user')
    const client = new Redis(server.connection.url, { retryStrategy: () => 20 })
    client.on('error', () => undefined)
    try {
      await client.set('order:1', 'charged')
      await server.kill('SIGKILL')
      expect(server.pid).toBeUndefined()
      await server.restart()
      expect(await client.get('order:1')).toBe('charged')
    } finally {
      client.disconnect()
    }
  },
)

test.skipIf(skipped('redis'))(
  'a Redis stopped with SIGSTOP holds its answer back until SIGCONT',
  async ({ skip }) => {
    await using server = await redis({ settings: { 'maxmemory-policy': 'noeviction' } })
    skip(!server.canKill, 'the server belongs to the user')
    const client = new Redis(server.connection.url)
    try {
      expect(await client.ping()).toBe('PONG')
      await server.kill('SIGSTOP')
      const late = client.set('k', 'v')
      const silence = new Promise((resolve) => setTimeout(resolve, 200, 'silence'))
      // A slow machine can only make the silence longer.
      expect(await Promise.race([late, silence])).toBe('silence')
      await server.kill('SIGCONT')
      expect(await late).toBe('OK')
      expect(await client.config('GET', 'maxmemory-policy')).toEqual([
        'maxmemory-policy',
        'noeviction',
      ])
    } finally {
      client.disconnect()
    }
  },
)
