import { FatalError } from '@onceward/core'
import { skipped, until } from '@onceward/testing'
import { erlang, guardOf, memoryLimit } from '@onceward/testing/adapter'
import { describe, expect, test } from 'vitest'
import { useRabbitmq } from './fixtures/use-rabbitmq.ts'
import { consumeAmqp, wrapAmqp } from './index.ts'

const keysOf = (count: number): string[] => Array.from({ length: count }, (_, n) => `k-${n}`)

describe.skipIf(skipped('rabbitmq'))('RabbitMQ during a memory alarm', () => {
  const kit = useRabbitmq()

  /** Ready and in hand. */
  const left = async (queue: string): Promise<number> => {
    const text = await erlang(kit.server)?.(`
      {ok, Queue} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"${queue}">>)),
      [{messages, Count}] = rabbit_amqqueue:info(Queue, [messages]),
      Count.`)
    return Number(text)
  }

  // Red when the dead letter goes out on the consuming connection: its acks are not read either, and nothing goes on.
  test('trap B5: a dead letter during the alarm holds up no other message, and there is one of it', async ({
    skip,
  }) => {
    const evaluate = erlang(kit.server)
    if (evaluate === undefined) return skip('the server belongs to the user')
    const queue = await kit.broker.create()
    const dead = await kit.broker.create()
    const gate = Promise.withResolvers<void>()
    const done: string[] = []
    const guard = guardOf(
      async ({ key }) => {
        await gate.promise
        if (key.startsWith('fatal')) throw new FatalError('no such order')
        done.push(key)
      },
      { concurrency: 1 },
    )
    const deadLetters = ['fatal-1', 'fatal-2', 'fatal-3']
    await kit.broker.send(queue, [...deadLetters, ...keysOf(40)])
    await using consumption = await consumeAmqp(kit.open, guard, {
      queue,
      deadLetter: { queue: dead },
    })
    await until(() => consumption.health().inFlight > 0)
    await evaluate(memoryLimit('1MB'))
    try {
      gate.resolve()
      await until(() => done.length === 40, { deadlineMs: 20_000 })
      await until(async () => (await left(queue)) <= deadLetters.length, { deadlineMs: 20_000 })
    } finally {
      await evaluate(memoryLimit('512MB'))
    }
    await until(async () => (await left(queue)) === 0, { deadlineMs: 60_000 })
    expect(await left(dead)).toBe(deadLetters.length)
    expect(consumption.health().state).toBe('running')
  }, 120_000)

  test('trap B12: a wrap whose queue is deleted is stopped, and continues when its user consumes again', async () => {
    const queue = await kit.broker.create()
    const done: string[] = []
    const guard = guardOf(({ key }) => void done.push(key))
    const connection = await kit.open()
    const channel = await connection.createConfirmChannel()
    const wrapped = wrapAmqp(channel, guard, { queue })
    await channel.consume(queue, wrapped)
    await kit.broker.channel.deleteQueue(queue)
    await until(() => wrapped.consumption.health().state === 'stopped')
    expect(wrapped.consumption.health().reason).toContain('cancelled by the server')
    await kit.broker.channel.assertQueue(queue, { durable: true })
    await channel.consume(queue, wrapped)
    await kit.broker.send(queue, ['again'])
    await until(() => done.length === 1)
    expect(wrapped.consumption.health().state).toBe('running')
    await connection.close()
  })
})
