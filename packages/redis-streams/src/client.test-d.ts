import type { Guard } from '@onceward/core/adapter'
import { Cluster, Redis } from 'ioredis'
import { Redis as Valkey, Cluster as ValkeyCluster } from 'iovalkey'
import { createClient, createClientPool, createCluster, createSentinel } from 'redis'
import { expectTypeOf } from 'vitest'
import {
  type Consumption,
  consumeStream,
  type StreamClient,
  type StreamReply,
  wrapStream,
} from './index.ts'

declare const guard: Guard

/** Compiled, never run: the clients that fit, as their users make them. */
export function clientsThatFit(): readonly StreamClient[] {
  const rootNodes = [{ url: 'redis://127.0.0.1:6379' }]
  const sentinels = [{ host: '127.0.0.1', port: 26379 }]
  return [
    new Redis(),
    new Redis({ sentinels, name: 'main', keyPrefix: 'mine:' }),
    new Cluster([{ port: 7000 }]),
    new Valkey(),
    new ValkeyCluster([{ port: 7000 }]),
    createClient(),
    createClient({ RESP: 3 }),
    createCluster({ rootNodes }),
    createSentinel({ name: 'main', sentinelRootNodes: sentinels }),
  ]
}

// @ts-expect-error a pool makes no connection for a receive that waits
void consumeStream(createClientPool(), guard, { stream: 'orders' })
// @ts-expect-error a stream is required
void consumeStream(new Redis(), guard, {})
// @ts-expect-error a wrap must know the name with which its loop reads
wrapStream(new Redis(), guard, { stream: 'orders' })
expectTypeOf(consumeStream).returns.resolves.toEqualTypeOf<Consumption>()

const handle = wrapStream(new Redis(), guard, { stream: ['a', 'b'], consumerName: 'one' })
expectTypeOf(handle).toExtend<(reply: StreamReply) => Promise<void>>()
const node = createClient()
void node.xReadGroup('billing', 'one', { key: 'a', id: '>' }).then(handle)
