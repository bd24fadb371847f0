// @module-tag nightly

import { FatalError } from '@onceward/core'
import { proxy, sqs, until } from '@onceward/testing'
import { guardOf } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { Queues } from './fixtures/queues.ts'
import { consumeSqs } from './index.ts'

const DEAD = 6
const keysOf = (name: string, count: number): string[] =>
  Array.from({ length: count }, (_, n) => `${name}-${n}`)

// Red when a dead letter that is being sent keeps other messages from running, or is forgotten when nobody answers.
test('an endpoint that never answers a dead letter stops no other message, and has them all later', async () => {
  await using server = await sqs()
  const { hostname, port } = new URL(server.connection.endpoint)
  await using link = await proxy({ host: hostname, port: Number(port) })
  const queues = new Queues(server.connection)
  const client = queues.another({ endpoint: `http://127.0.0.1:${link.port}` })
  const [queueUrl, deadUrl] = [await queues.create(), await queues.create()]
  let hanging = 0
  link.onData = (direction, chunk) => {
    const isSend = direction === 'up' && /AmazonSQS\.SendMessage\r/i.test(chunk.toString('latin1'))
    if (isSend) hanging += 1
    return isSend ? 'drop' : 'pass'
  }
  const effects: string[] = []
  const guard = guardOf(({ key }) => {
    if (key.startsWith('dead')) throw new FatalError('no such order')
    effects.push(key)
  })
  await queues.send(queueUrl, [...keysOf('dead', DEAD), ...keysOf('ok', 60)])
  await using consumption = await consumeSqs(client, guard, {
    queueUrl,
    deadLetter: { queueUrl: deadUrl },
  })
  await until(() => effects.length === 60 && hanging > 0)
  expect(consumption.health().state).toBe('running')
  expect(await queues.receive(deadUrl, 0)).toEqual([])

  link.onData = undefined
  const ids = new Set<string | undefined>()
  await until(
    async () => {
      for (const { MessageAttributes } of await queues.receive(deadUrl, 0)) {
        ids.add(MessageAttributes?.['x-onceward-event-id']?.StringValue)
      }
      return ids.size === DEAD && (await queues.isEmpty(queueUrl))
    },
    { deadlineMs: 90_000 },
  )
  expect(effects.toSorted()).toEqual(keysOf('ok', 60).toSorted())
}, 150_000)
