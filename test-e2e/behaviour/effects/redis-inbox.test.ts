import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { type RedisConnection, redis, type Server, until } from '@onceward/testing'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Death } from './stock.ts'

let server: Server<RedisConnection>
let client: Redis
beforeAll(async () => {
  server = await redis()
  client = new Redis(server.connection.port)
})
afterAll(async () => {
  client.disconnect()
  await server.stop()
})

/** A worker process with keys of a tag; it answers the kind of the settlement, or undefined if it died meanwhile. */
function worker(tag: string, death: Death) {
  const { NODE_OPTIONS: _, ...env } = process.env
  const execArgv = ['--conditions=@onceward/source', '--no-warnings']
  const file = join(import.meta.dirname, 'stock.ts')
  const child = fork(file, [String(server.connection.port), tag, death], { env, execArgv })
  const ended = once(child, 'exit')
  return {
    deliver: async (sku: string): Promise<unknown> => {
      const answer = once(child, 'message')
      child.send(sku)
      const [kind] = (await Promise.race([answer, ended.then(() => [])])) as unknown[]
      return kind
    },
    signal: async (): Promise<unknown> => ended.then(() => child.signalCode),
    [Symbol.asyncDispose]: async () => {
      if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL')
      await ended
    },
  }
}

const effects = async (tag: string, sku: string): Promise<readonly unknown[]> => [
  await client.get(`{${tag}}sold:${sku}`),
  await client.hget(`{${tag}}stock`, sku),
]

test.concurrent.each<readonly [Death, readonly unknown[]]>([
  ['in-handler', [null, null]],
  ['before-commit', [null, null]],
  ['after-commit', ['1', '-1']],
])(
  'a worker killed %s leaves all of its effect or nothing, and the redelivery completes it once',
  async (death, left) => {
    await using first = worker(death, death)
    expect(await first.deliver('sku')).toBeUndefined()
    expect(await first.signal()).toBe('SIGKILL')
    expect(await effects(death, 'sku')).toEqual(left)
    await redelivered(death, 'sku')
  },
)

test.concurrent('a worker killed with its commit on the way, again and again: each event has its effect once', async () => {
  for (let n = 0; n < 3; n += 1) {
    const sku = `sent-${n}`
    await using first = worker('commit-sent', 'commit-sent')
    expect(await first.deliver(sku)).toBeUndefined()
    await redelivered('commit-sent', sku)
  }
})

/** Delivers the event to another worker until it is acked, and once more. */
async function redelivered(tag: string, sku: string): Promise<void> {
  await using second = worker(tag, 'never')
  await until(
    async () => {
      const kind = await second.deliver(sku)
      // The lock of a dead process lives for ten seconds: let them pass.
      for (const key of await client.keys(`{${tag}}o:onceward:le*`)) await client.pexpire(key, 1)
      return kind === 'ack'
    },
    { what: `the redelivery of ${sku}`, deadlineMs: 60_000, everyMs: 20 },
  )
  expect(await second.deliver(sku)).toBe('ack')
  expect(await effects(tag, sku)).toEqual(['1', '-1'])
}
