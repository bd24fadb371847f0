import { until } from '@onceward/testing'
import { erlang, guardOf } from '@onceward/testing/adapter'
import { beforeAll, expect, test } from 'vitest'
import { useRabbitmq } from './fixtures/use-rabbitmq.ts'
import { assertRetryTopology, type Consumption, consumeAmqp } from './index.ts'

const kit = useRabbitmq()

beforeAll(async () => {
  // How long a delay queue waits before it offers a refused message again: three minutes by default.
  const setting = 'application:set_env(rabbit, dead_letter_worker_publisher_confirm_timeout, 1000).'
  await erlang(kit.server)?.(setting)
}, 200_000)

const bodyOf = async (queue: string): Promise<string> =>
  String((await until(() => kit.broker.get(queue))).content)

// Red with a classic delay queue: it offers a message once, and the full queue refuses it.
test.each(['classic', 'quorum'] as const)(
  'trap B3: a deferred message waits while its %s queue is full and refuses publishers',
  { timeout: 60_000 },
  async (type) => {
    const queue = await kit.broker.create(type, {
      'x-max-length': 1,
      'x-overflow': 'reject-publish',
    })
    await assertRetryTopology(kit.broker.channel, queue, [100])
    await kit.broker.send(queue, ['first'])
    await until(async () => (await kit.broker.ready(queue)) === 1)
    await kit.broker.send(`${queue}.retry.100`, ['deferred'])
    await until(async () => (await kit.broker.ready(`${queue}.retry.100`)) === 0)
    expect(await bodyOf(queue)).toContain('first')
    expect(await bodyOf(queue)).toContain('deferred')
  },
)

test.each(['reject-publish', 'reject-publish-dlx'])(
  'trap B3: a consumer of a queue with x-overflow %s loses no message that it defers',
  { timeout: 60_000 },
  async (overflow) => {
    const queue = await kit.broker.create('classic', { 'x-max-length': 2, 'x-overflow': overflow })
    const done: string[] = []
    const guard = guardOf(
      ({ key, attempt }) => {
        if (attempt === 1) throw new Error('not yet')
        done.push(key)
      },
      { retry: { baseMs: 50, maxMs: 50 } },
    )
    const options = { queue, holdMs: 0, retryLevelsMs: [100] }
    await kit.broker.send(queue, ['a', 'b'])
    const first: Consumption = await consumeAmqp(kit.open, guard, options)
    await until(async () => (await kit.broker.ready(queue)) === 0)
    await first.drain()
    await kit.broker.send(queue, ['c', 'd']).catch(() => undefined)
    await using _ = await consumeAmqp(kit.open, guard, options)
    await until(() => ['a', 'b'].every((key) => done.includes(key)))
  },
)

test('trap B3: a classic delay queue beside a queue that refuses publishers is refused by name', async () => {
  const queue = await kit.broker.create('classic', {
    'x-max-length': 1,
    'x-overflow': 'reject-publish',
  })
  await kit.broker.channel.assertQueue(`${queue}.retry.100`, {
    durable: true,
    messageTtl: 100,
    deadLetterExchange: '',
    deadLetterRoutingKey: queue,
  })
  const guard = guardOf(() => undefined)
  await expect(consumeAmqp(kit.open, guard, { queue, retryLevelsMs: [100] })).rejects.toThrow(
    `'${queue}.retry.100' exists with x-queue-type 'classic' instead of 'quorum'`,
  )
})

test('a delay queue that goes when it is not used is refused by name: it never has a consumer', async () => {
  const queue = await kit.broker.create('classic')
  await kit.broker.channel.assertQueue(`${queue}.retry.100`, {
    durable: true,
    messageTtl: 100,
    expires: 60_000,
    deadLetterExchange: '',
    deadLetterRoutingKey: queue,
  })
  const guard = guardOf(() => undefined)
  await expect(consumeAmqp(kit.open, guard, { queue, retryLevelsMs: [100] })).rejects.toThrow(
    `'${queue}.retry.100' exists with x-expires '60000' instead of none`,
  )
})
