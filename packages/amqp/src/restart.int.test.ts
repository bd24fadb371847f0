import { rabbitmq, until } from '@onceward/testing'
import { guardOf, quorumQueuesOnDisk } from '@onceward/testing/adapter'
import { connect } from 'amqplib'
import { expect, test } from 'vitest'
import { Broker } from './fixtures/broker.ts'
import { type Consumption, consumeAmqp } from './index.ts'

const LONG = { deadlineMs: 60_000 }
const keysOf = (count: number, prefix = 'k'): string[] =>
  Array.from({ length: count }, (_, n) => `${prefix}-${n}`)

test('the consumer recovers from a server that is killed and restarted', async ({ skip }) => {
  await using server = await rabbitmq()
  skip(!server.canKill, 'the server belongs to the user')
  const { url } = server.connection
  const before = await Broker.connect(url)
  const queues = [await before.create('classic'), await before.create('quorum')]
  const gate = Promise.withResolvers<void>()
  const effects: string[] = []
  let waiting = 0
  const guard = guardOf(
    async ({ key }) => {
      if (key.includes('held')) {
        waiting += 1
        await gate.promise
      }
      effects.push(key)
    },
    { leaseMs: 10_000 },
  )
  const running: Consumption[] = []
  for (const queue of queues) {
    running.push(await consumeAmqp(() => connect(url), guard, { queue }))
    await before.send(queue, [`${queue}-held`, ...keysOf(50, queue)])
  }
  await until(() => waiting === 2 && effects.length === 100)
  await quorumQueuesOnDisk(server)

  await server.kill('SIGKILL')
  await until(() => running.every((each) => each.health().state === 'recovering'))
  gate.resolve()
  await until(() => effects.length === 102)
  await server.restart()

  await using after = await Broker.connect(url)
  for (const queue of queues) await after.send(queue, keysOf(20, `${queue}-after`))
  await until(() => effects.length === 142, LONG)
  await until(() => running.every((each) => each.health().inFlight === 0), LONG)
  await Promise.all(running.map((each) => each.drain()))
  for (const queue of queues) expect(await after.ready(queue)).toBe(0)
  expect(new Set(effects).size).toBe(142)
}, 180_000)
