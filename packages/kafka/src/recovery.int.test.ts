import { until } from '@onceward/testing'
import { type DataHook, proxy, skipped, type TcpProxy } from '@onceward/testing/servers'
import { describe, expect, test, vi } from 'vitest'
import { onEvent, through } from './fixtures/topics.ts'
import { billing, type KafkaKit, range, useKafka } from './fixtures/use-kafka.ts'
import { consumeKafka } from './index.ts'

function linkTo({ server }: KafkaKit): Promise<TcpProxy> {
  const [host = '', port] = (server.connection.brokers[0] ?? '').split(':')
  return proxy({ host, port: Number(port) })
}

const SYNC_GROUP = 14

/** Kinds of the requests in a piece of data, which begins with a request: its size, its kind, and so on. */
function* kindsOf(chunk: Buffer): Generator<number> {
  for (let at = 0; at + 6 <= chunk.length; at += 4 + chunk.readInt32BE(at)) {
    yield chunk.readInt16BE(at + 4)
  }
}

/** Lets the broker carry out the first request of a kind, and cuts its connection before the answer. */
function losing(kind: number, onLost: () => void): DataHook {
  let connection: number | undefined
  let isLost = false
  return (direction, chunk, { number }) => {
    if (direction === 'up' && connection === undefined && [...kindsOf(chunk)].includes(kind)) {
      connection = number
    }
    if (direction === 'up' || number !== connection || isLost) return 'pass'
    isLost = true
    onLost()
    return 'cut'
  }
}

describe.skipIf(skipped('kafka'))('consumeKafka during an outage of Kafka', () => {
  const kit = useKafka({})
  const consumer = { sessionTimeout: 6_000 }

  // Red when a consumer that kafkajs gave up is not replaced, or its heartbeats reject unheard (K13).
  test.each(['SIGKILL', 'SIGTERM'] as const)(
    'K13, K20: after %s and a restart every event has run once, without help',
    async (signal) => {
      const { server, topics } = kit
      expect(server.canKill).toBe(true)
      const topic = await topics.create(4)
      const ran: string[] = []
      const guard = billing(({ payload }) => void ran.push(payload.key))
      await using consumption = await consumeKafka(topics.client(), guard, {
        topics: [topic],
        consumer,
      })
      await topics.send(topic, range(100, 'before'))
      await until(() => ran.length > 10)
      await server.kill(signal)
      await server.restart()
      await topics.send(topic, range(100, 'after'))
      await topics.caughtUp(guard.consumer, topic)
      expect(ran.toSorted()).toEqual([...range(100, 'after'), ...range(100, 'before')].toSorted())
      expect(consumption.health().state).toBe('running')
    },
    180_000,
  )

  // Red when `restartOnFailure` answers true: the consumer comes back 6 s after the broker, and runs.
  // test-e2e/behaviour/brokers/outage.test.ts tests the same with a worker.
  test('K21: a drain during an outage ends, and nothing reconnects when the endpoint is back', {
    tags: 'nightly',
    timeout: 180_000,
  }, async () => {
    const { server, topics } = kit
    const topic = await topics.create(1)
    const ran: string[] = []
    const client = topics.client({
      retry: { retries: 2, initialRetryTime: 100, maxRetryTime: 300 },
    })
    const joins: unknown[] = []
    onEvent(client, 'GROUP_JOIN', (event) => void joins.push(event))
    const guard = billing(({ payload }) => void ran.push(payload.key))
    const consumption = await consumeKafka(client, guard, {
      topics: [topic],
      consumer,
      drainMs: 500,
    })
    await topics.send(topic, ['one'])
    await topics.caughtUp(guard.consumer, topic)
    await server.kill('SIGKILL')
    await consumption.drain()
    await server.restart()
    await topics.send(topic, ['two'])
    const restarts = joins.length
    await until(async () => (await topics.members(guard.consumer)) === 0)
    await new Promise((resolve) => setTimeout(resolve, 8_000))
    expect(await topics.members(guard.consumer)).toBe(0)
    expect([ran, joins.length]).toEqual([['one'], restarts])
  })

  // Red without the watchdog: kafkajs asks on the dead connections, each time until its request times out, for minutes.
  test('the consumer detects a silent network, without an error of the socket', async () => {
    const { topics } = kit
    const topic = await topics.create(1)
    await using link = await linkTo(kit)
    const ran: string[] = []
    const guard = billing(({ payload }) => void ran.push(payload.key))
    await using consumption = await consumeKafka(topics.client(through(link)), guard, {
      topics: [topic],
      consumer: { sessionTimeout: 1_500, rebalanceTimeout: 1_500 },
    })
    await topics.send(topic, ['before'])
    await topics.caughtUp(guard.consumer, topic)
    // As with a firewall that drops its state: old connections stay open but pass nothing, and new ones work.
    const dead = new Set<number>()
    let areOld = true
    link.onData = (_direction, _chunk, { number }) => {
      if (areOld) dead.add(number)
      return dead.has(number) ? 'drop' : 'pass'
    }
    await until(() => dead.size > 0 && consumption.health().state === 'recovering')
    areOld = false
    expect(consumption.health().reason).toMatch(
      /Fetches and heartbeats got no answer within 3000 ms/,
    )
    await topics.send(topic, ['after'])
    await topics.caughtUp(guard.consumer, topic)
    expect(ran).toEqual(['before', 'after'])
    await until(() => consumption.health().state === 'running')
  })

  // Red when a consumer is only let go: kafkajs goes on connecting, and its socket keeps the process alive.
  test('a drain during an outage leaves no connection open when Kafka is back', async () => {
    const { topics } = kit
    const topic = await topics.create(1)
    await using link = await linkTo(kit)
    const retry = { initialRetryTime: 100, maxRetryTime: 200, retries: 1_000 }
    const client = topics.client({ ...through(link), retry })
    const made = vi.spyOn(client, 'consumer')
    let connected = 0
    onEvent(client, 'CONNECT', () => {
      connected += 1
    })
    const guard = billing(() => undefined)
    const consumption = await consumeKafka(client, guard, {
      topics: [topic],
      consumer: { sessionTimeout: 1_500, rebalanceTimeout: 1_500 },
    })
    link.refuse(true)
    link.cut()
    await until(() => made.mock.calls.length === 2)
    await consumption.drain()
    connected = 0
    link.refuse(false)
    await until(() => connected === 1 && link.connections === 0)
  })

  // Red when kafkajs is left alone: it fetches on, its heartbeats succeed, and no record of its partitions runs again.
  test('a member whose last SyncGroup got no answer joins again, and every event runs once', async () => {
    const { topics } = kit
    const topic = await topics.create(4)
    await using link = await linkTo(kit)
    const ran: string[] = []
    const guard = billing(({ payload }) => void ran.push(payload.key))
    const options = { topics: [topic], consumer: { ...consumer, heartbeatInterval: 300 } }
    await using _first = await consumeKafka(topics.client(through(link)), guard, options)
    await topics.send(topic, range(20, 'before'))
    await topics.caughtUp(guard.consumer, topic)
    const lost = Promise.withResolvers<void>()
    link.onData = losing(SYNC_GROUP, lost.resolve)
    await using _second = await consumeKafka(topics.client(), guard, options)
    await lost.promise
    await topics.send(topic, range(40, 'after'))
    await topics.caughtUp(guard.consumer, topic)
    expect(ran.toSorted()).toEqual([...range(20, 'before'), ...range(40, 'after')].toSorted())
  })
})
