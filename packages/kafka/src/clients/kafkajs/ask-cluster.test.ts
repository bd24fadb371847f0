import { Clock } from '@onceward/testing/adapter'
import type { AdminConfig, ConsumerConfig } from 'kafkajs'
import { describe, expect, test } from 'vitest'
import type { KafkaAdmin } from '../../client.ts'
import { clusterOf } from '../../fixtures/cluster.ts'
import { protocolError } from '../../fixtures/fetch.ts'
import { stepped } from '../../fixtures/stepped.ts'
import { askCluster, lookOnlyAt, topicNames, unseenAmong } from './ask-cluster.ts'

/** How long kafkajs tries at most before it gives up with its own error. */
const longestMs = ({ retry }: AdminConfig | ConsumerConfig): number =>
  (retry?.retries ?? Number.NaN) * (retry?.maxRetryTime ?? Number.NaN)

/** An admin that connects, answers and disconnects when the test says so. */
function asking() {
  const clock = new Clock()
  const { calls, connected, disconnected, client: admin } = stepped()
  const answered = Promise.withResolvers<string>()
  const configs: AdminConfig[] = []
  const client = {
    admin: (config: AdminConfig) => {
      configs.push(config)
      return admin
    },
  }
  const ask = (given: KafkaAdmin): Promise<string> => {
    expect(given).toBe(admin)
    calls.push('ask')
    return answered.promise
  }
  let fate: unknown = 'pending'
  askCluster(client as never, clock.runtime, ask).then(
    (answer) => {
      fate = answer
    },
    (error: unknown) => {
      fate = error
    },
  )
  return {
    ...{ clock, calls, configs, connected, answered, disconnected },
    get fate() {
      return fate
    },
  }
}

describe('a cluster is asked', () => {
  test('on a connection of its own, which is closed before the answer is given', async () => {
    const kit = asking()
    expect(kit.calls).toEqual(['connect'])
    kit.connected.resolve()
    await kit.clock.advance(0)
    expect(kit.calls).toEqual(['connect', 'ask'])
    kit.answered.resolve('two topics')
    await kit.clock.advance(0)
    expect([kit.calls, kit.fate]).toEqual([['connect', 'ask', 'disconnect'], 'pending'])
    kit.disconnected.resolve()
    await kit.clock.advance(0)
    expect([kit.fate, kit.clock.timers]).toEqual(['two topics', 0])
  })

  // Red when kafkajs tries longer: only that no answer came would be told, and not why.
  test('so that kafkajs gives up with its own error in time', () => {
    const [config = {}] = asking().configs
    expect(longestMs(config)).toBeLessThan(20_000)
  })

  test.each(['connect', 'answer'])(
    'in vain if it fails to %s: the error is that of kafkajs',
    async (what) => {
      const kit = asking()
      const error = protocolError('NETWORK_EXCEPTION')
      if (what === 'connect') kit.connected.reject(error)
      else kit.connected.resolve()
      kit.answered.promise.catch(() => undefined)
      kit.answered.reject(error)
      kit.disconnected.reject(new Error('Connection closed'))
      kit.disconnected.promise.catch(() => undefined)
      await kit.clock.advance(0)
      expect([kit.calls.at(-1), kit.fate]).toEqual(['disconnect', error])
    },
  )

  test('for 20 s at most, and a connection that does not close is waited for two more', async () => {
    const kit = asking()
    kit.connected.resolve()
    await kit.clock.advance(21_999)
    expect(kit.fate).toBe('pending')
    await kit.clock.advance(1)
    expect(kit.fate).toMatchObject({
      name: 'TimeoutError',
      message: 'the cluster got no answer within 20000 ms',
    })
    // Red when it is closed before the answer: kafkajs would open another connection, which keeps the process alive.
    expect(kit.calls).not.toContain('disconnect')
    kit.answered.resolve('late')
    await kit.clock.advance(0)
    expect(kit.calls.at(-1)).toBe('disconnect')
  })

  test('and answers although the connection does not close within two seconds', async () => {
    const kit = asking()
    kit.connected.resolve()
    kit.answered.resolve('two topics')
    await kit.clock.advance(1_999)
    expect([kit.calls.at(-1), kit.fate]).toEqual(['disconnect', 'pending'])
    await kit.clock.advance(1)
    expect(kit.fate).toBe('two topics')
  })
})

describe('the names of all topics', () => {
  test('are asked for on a connection of a consumer that joins no group', async () => {
    const cluster = clusterOf({ orders: {}, secret: { denied: 'describe' } })
    const configs: ConsumerConfig[] = []
    const consumer = (config: ConsumerConfig) => {
      configs.push(config)
      return cluster.kafka.consumer(config)
    }
    expect(await topicNames({ consumer } as never, 'billing')).toEqual(['orders', 'secret'])
    expect(cluster.asked).toEqual([['consumer.connect', 'billing'], ['consumer.disconnect']])
    expect(configs.map(longestMs)[0]).toBeLessThan(20_000)
  })

  test('are not known if kafkajs gives no access to its cluster', async () => {
    const cluster = clusterOf({ orders: {} })
    cluster.hasCluster = false
    expect(await topicNames(cluster.kafka, 'billing')).toBeUndefined()
    expect(cluster.asked.at(-1)).toEqual(['consumer.disconnect'])
  })

  // Red when it stays connected: its socket would keep the process alive.
  test('are in vain asked of a broker that is down', async () => {
    const calls: string[] = []
    const consumer: object = {
      connect: () => Promise.reject(protocolError('NETWORK_EXCEPTION')),
      disconnect: async () => void calls.push('disconnect'),
    }
    const asked = topicNames({ consumer: () => consumer } as never, 'billing')
    await expect(asked).rejects.toMatchObject({ type: 'NETWORK_EXCEPTION' })
    expect(calls).toEqual(['disconnect'])
  })
})

const topicsOf = (names: string): readonly string[] => names.split(' ').filter(Boolean)

describe('topics that this client cannot see', () => {
  test.each([
    ['there are none', 'a b c', '', '', 1],
    ['no topic is asked for', '', '', '', 0],
    ['the only one is missing', 'a', 'a', '', 1],
    ['the only one is denied', 'a', '', 'a', 1],
    ['each is told from the others, in their order', 'a b c d e', 'b e', 'c', 9],
  ])('are told by name: %s', async (_what, names, missing, denied, requests) => {
    const topics = topicsOf(names)
    const present = topics.filter((topic) => !topicsOf(missing).includes(topic))
    const cluster = clusterOf(
      Object.fromEntries(
        present.map((topic) => [
          topic,
          topicsOf(denied).includes(topic) ? { denied: 'describe' } : {},
        ]),
      ),
    )
    const admin = cluster.kafka.admin()
    expect(await unseenAmong(admin, topics)).toEqual({
      missing: topicsOf(missing),
      denied: topicsOf(denied),
    })
    expect(cluster.asked).toHaveLength(requests)
  })

  // Red when it counts as a missing topic: the start would fail for good instead of trying again.
  test('are not told if the broker does not answer', async () => {
    const fetchTopicMetadata = () => Promise.reject(protocolError('NETWORK_EXCEPTION'))
    const asked = unseenAmong({ fetchTopicMetadata } as never, ['orders', 'refunds'])
    await expect(asked).rejects.toMatchObject({ type: 'NETWORK_EXCEPTION' })
  })
})

test('a connection looks only at the topic whose offsets it was asked for', async () => {
  const asked: unknown[] = []
  const fetchTopicOffsets = async (topic: string) => {
    asked.push(topic)
    return []
  }
  await lookOnlyAt({ fetchTopicOffsets }, 'orders')
  expect(asked).toEqual(['orders'])
})
