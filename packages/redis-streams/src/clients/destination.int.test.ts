import type { OutgoingMessage } from '@onceward/core'
import { redis, skipped } from '@onceward/testing'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { expect, test } from 'vitest'
import { fromStreamEntry } from '../delivery.ts'
import { freshStream } from '../fixtures/streams.ts'
import { streamDestination } from './destination.ts'

const message = (id: string, over: Partial<OutgoingMessage> = {}): OutgoingMessage => ({
  ...{ id, source: 'billing', type: 'paid', headers: {}, contentType: 'application/json' },
  payload: Buffer.from(id),
  ...over,
})
const { signal } = new AbortController()

test.skipIf(skipped('redis'))(
  'messages are entries as consumers read them, and a Redis that takes none is down',
  async () => {
    await using server = await redis()
    const { url } = server.connection
    const client = new Redis(url)
    const node = createClient({ url })
    await node.connect()
    try {
      const stream = freshStream()
      const binary = Uint8Array.of(255, 0)
      const headers = { trace: 'ü', payload: 'no body' }
      const first = streamDestination(client, { stream })
      const sent = [message('m-1', { headers, payload: binary }), message('m-2')]
      expect(await first.publish(sent, signal)).toEqual([undefined, undefined])
      expect(await streamDestination(node, { stream }).publish([message('m-3')], signal)).toEqual([
        undefined,
      ])
      const entries = await client.xrangeBuffer(stream, '-', '+')
      const read = entries.map((entry) => fromStreamEntry(entry, stream))
      expect(read.map(({ body }) => Buffer.from(body).toString('latin1'))).toEqual([
        ...['\u00ff\0', 'm-2', 'm-3'],
      ])
      expect(read[0]).toMatchObject({
        contentType: 'application/json',
        headers: {
          ...{ trace: 'ü', 'ce-id': 'm-1', 'ce-source': 'billing', 'ce-type': 'paid' },
          ...{ 'ce-specversion': '1.0', 'idempotency-key': 'm-1' },
        },
      })
      await client.set('text', 'no stream')
      const unfit = streamDestination(client, { stream: 'text' })
      expect(await unfit.publish([message('m-4')], signal)).toEqual([
        { down: expect.objectContaining({ message: expect.stringContaining('WRONGTYPE') }) },
      ])
      await client.config('SET', 'maxmemory', '1')
      expect(await first.publish([message('m-5')], signal)).toEqual([
        { down: expect.objectContaining({ message: expect.stringContaining('OOM') }) },
      ])
    } finally {
      client.disconnect()
      node.destroy()
    }
  },
)

const client = { callBuffer: () => undefined, duplicate: () => ({}) }

test.each<readonly [what: string, client: unknown, options: object, says: string]>([
  ['an URL', 'redis://localhost', { stream: 'a' }, 'a client of ioredis, iovalkey or node-redis'],
  ['no stream', client, {}, 'Expected `stream` to be text'],
  ['another name', client, { streem: 'a' }, 'did you mean "stream"?'],
])('%s is refused', (_what, given, options, says) => {
  const wrong = () => streamDestination(given as never, options as never)
  expect(wrong).toThrow(says)
})
