import { FatalError } from '@onceward/core'
import { redis as redisServer, type Server, until } from '@onceward/testing'
import { guardOf } from '@onceward/testing/adapter'
import { Cluster, Redis } from 'ioredis'
import { createCluster } from 'redis'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { StreamClient } from './client.ts'
import { freshStream } from './fixtures/streams.ts'
import { consumeStream } from './index.ts'

/** One node with all slots refuses what every cluster refuses: keys of two slots in one command. */
let server: Server<{ readonly url: string; readonly port: number }>
let cluster: Cluster
let pipelined: Cluster
let nodes: ReturnType<typeof createCluster>
const clients = new Map<string, StreamClient>()

beforeAll(async () => {
  server = await redisServer({
    native: true,
    settings: { 'cluster-enabled': 'yes', 'cluster-announce-ip': '127.0.0.1' },
  })
  const { port, url } = server.connection
  const node = new Redis(url)
  await node.cluster('ADDSLOTSRANGE', 0, 16_383)
  await until(async () => String(await node.cluster('INFO')).includes('cluster_state:ok'))
  node.disconnect()
  cluster = new Cluster([{ host: '127.0.0.1', port }])
  pipelined = new Cluster([{ host: '127.0.0.1', port }], { enableAutoPipelining: true })
  nodes = createCluster({ rootNodes: [{ url }] })
  await nodes.connect()
  clients.set('ioredis', cluster).set('node-redis', nodes)
  clients.set('ioredis that pipelines', pipelined)
})
afterAll(async () => {
  cluster.disconnect()
  pipelined.disconnect()
  nodes.destroy()
  await server.stop()
})

test.each([
  ['ioredis', 'one slot'],
  ['ioredis', 'two slots'],
  ['ioredis that pipelines', 'two slots'],
  ['node-redis', 'one slot'],
] as const)(
  '%s consumes two streams of a cluster, and adds dead letters in %s',
  async (name, slots) => {
    const streams = [freshStream(), freshStream()]
    const dead = slots === 'one slot' ? `{${streams[0]}}.dead` : freshStream()
    const runs: string[] = []
    const guard = guardOf(
      (event) => {
        runs.push(event.payload.key)
        if (event.attempt === 1 && event.payload.key === 'late') throw new Error('not yet')
        if (event.payload.key === 'dead') throw new FatalError('no')
      },
      { retry: { attempts: 3, baseMs: 0 } },
    )
    const options = { stream: streams, deadLetter: { stream: dead }, holdMs: 0, drainMs: 2_000 }
    await using _ = await consumeStream(clients.get(name)!, guard, options)
    for (const stream of streams) {
      for (const key of ['good', 'late', 'dead'].map((each) => `${each}`)) {
        const payload = JSON.stringify({ key })
        await cluster.xadd(stream, '*', 'idempotency-key', `${stream} ${key}`, 'payload', payload)
      }
    }
    await until(async () => {
      const lengths = await Promise.all(streams.map((stream) => cluster.xlen(stream)))
      return lengths.every((length) => length === 0)
    })
    expect(runs.toSorted()).toEqual([
      'dead',
      'dead',
      'good',
      'good',
      'late',
      'late',
      'late',
      'late',
    ])
    expect(await cluster.xlen(dead)).toBe(2)
  },
)

// Red when the receive of a stream without entries reserves all room: the streams behind it are never received from.
test.each([1, 8])(
  'with %i slots, several streams share the room, whether one of them is quiet or not',
  async (concurrency) => {
    const streams = [freshStream(), freshStream(), freshStream(), freshStream()]
    const [quiet = '', ...others] = streams
    const runs: string[] = []
    const guard = guardOf((event) => void runs.push(event.payload.key), { concurrency })
    await using _ = await consumeStream(cluster, guard, { stream: streams, drainMs: 2_000 })
    for (let n = 0; n < 50; n += 1) {
      for (const stream of n < 25 ? streams : others) {
        const payload = JSON.stringify({ key: stream })
        await cluster.xadd(stream, '*', 'idempotency-key', `${stream} ${n}`, 'payload', payload)
      }
    }
    await until(() => runs.length === 175, { deadlineMs: 20_000 })
    expect(runs.filter((stream) => stream === quiet)).toHaveLength(25)
  },
)
