import { proxy, type Server, sqs, until } from '@onceward/testing'
import { guardOf } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { Queues } from './fixtures/queues.ts'
import { consumeSqs } from './index.ts'

/** Longer than the back-off of the receiving loop grows: its longest pause, 2 s, comes after about 3 s. */
const OUTAGE_MS = 8_000
const keysOf = (count: number): string[] => Array.from({ length: count }, (_, n) => `k-${n}`)

function addressOf(server: Server<{ readonly endpoint: string }>) {
  const { hostname, port } = new URL(server.connection.endpoint)
  return { host: hostname, port: Number(port) }
}

/** Resolves after that time: the length of the outage, not a wait for a condition. */
function elapsed(ms: number): Promise<unknown> {
  const startedAt = performance.now()
  return until(() => performance.now() - startedAt >= ms, { deadlineMs: 2 * ms, everyMs: 100 })
}

// Red when an error of the receive ends the loop, or when a settlement that failed is forgotten by the store.
test('an endpoint that is down for seconds loses no event and doubles none', async () => {
  await using server = await sqs()
  await using link = await proxy(addressOf(server))
  const queues = new Queues(server.connection)
  const hurtClient = queues.another({ endpoint: `http://127.0.0.1:${link.port}` })
  const queueUrl = await queues.create()
  const effects: string[] = []
  const gate = Promise.withResolvers<void>()
  let waiting = 0
  let duplicates = 0
  const guard = guardOf(
    async (event) => {
      if (event.key.startsWith('held')) {
        waiting += 1
        await gate.promise
      }
      effects.push(event.key)
    },
    {
      observe: ({ settlement }) => {
        if (settlement.kind === 'ack' && settlement.by === 'duplicate') duplicates += 1
      },
    },
  )
  const before = keysOf(100)
  const during = Array.from({ length: 50 }, (_, n) => `d-${n}`)
  await queues.send(queueUrl, ['held-1', 'held-2', ...before])
  await using consumption = await consumeSqs(hurtClient, guard, { queueUrl, longPollMs: 2_000 })
  await until(() => waiting === 2 && effects.length === 100)

  link.refuse(true)
  link.cut()
  gate.resolve()
  await queues.send(queueUrl, during)
  await until(() => consumption.health().state === 'recovering')
  expect(consumption.health().reason).toMatch(/ECONN|socket|hang up/i)
  await elapsed(OUTAGE_MS)
  link.refuse(false)

  await until(() => effects.length === 152, { deadlineMs: 30_000 })
  expect(consumption.health().state).toBe('running')
  // The two that ended during the outage return as duplicates: each has one effect and leaves the queue.
  await until(() => queues.isEmpty(queueUrl), { deadlineMs: 40_000 })
  expect(effects.toSorted()).toEqual(['held-1', 'held-2', ...before, ...during].toSorted())
  // The outage was long enough: neither could be settled during it.
  expect(duplicates).toBeGreaterThanOrEqual(2)
}, 120_000)

test('the consumer detects a silent network, without an error of the socket', async () => {
  await using server = await sqs()
  await using link = await proxy(addressOf(server))
  const queues = new Queues(server.connection)
  const hurtClient = queues.another({ endpoint: `http://127.0.0.1:${link.port}` })
  const queueUrl = await queues.create()
  const effects: string[] = []
  const guard = guardOf((event) => void effects.push(event.key))
  await using consumption = await consumeSqs(hurtClient, guard, { queueUrl, longPollMs: 1_000 })
  link.pause()
  await until(() => consumption.health().state === 'recovering', { deadlineMs: 30_000 })
  expect(consumption.health().reason).toMatch(/ReceiveMessage got no answer/)
  link.resume()
  await queues.send(queueUrl, ['after'])
  await until(() => effects.length === 1, { deadlineMs: 40_000 })
}, 120_000)

test('the consumer recovers from a server that is killed and restarted', async ({ skip }) => {
  await using server = await sqs({ process: true })
  skip(!server.canKill, 'the server belongs to the user')
  const queues = new Queues(server.connection)
  const queueUrl = await queues.create()
  const effects: string[] = []
  const guard = guardOf((event) => void effects.push(event.key))
  await using consumption = await consumeSqs(queues.client, guard, { queueUrl, longPollMs: 2_000 })
  await queues.send(queueUrl, keysOf(20))
  await until(() => effects.length === 20)
  await server.kill('SIGKILL')
  await until(() => consumption.health().state === 'recovering')
  await server.restart()
  await queues.send(queueUrl, ['after'])
  await until(() => effects.includes('after'), { deadlineMs: 20_000 })
  expect(effects).toHaveLength(21)
})

// Red when the drain waits for the endpoint, or when a poll survives it and receives again.
test('a drain during an outage ends, and nothing reconnects when the endpoint is back', async () => {
  await using server = await sqs()
  await using link = await proxy(addressOf(server))
  const queues = new Queues(server.connection)
  const hurtClient = queues.another({ endpoint: `http://127.0.0.1:${link.port}` })
  const queueUrl = await queues.create()
  let runs = 0
  const guard = guardOf(() => {
    runs += 1
  })
  const consumption = await consumeSqs(hurtClient, guard, { queueUrl, longPollMs: 2_000 })
  link.refuse(true)
  link.cut()
  await until(() => consumption.health().state === 'recovering')
  await consumption.drain()
  await consumption.stopped
  link.refuse(false)
  await queues.send(queueUrl, ['after'])
  await elapsed(5_000)
  expect(runs).toBe(0)
  expect(await queues.depth(queueUrl)).toEqual([1, 0])
  expect(link.connections).toBe(0)
})
