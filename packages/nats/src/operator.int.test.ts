import { jetstream } from '@nats-io/jetstream'
import { ConfigurationError, type Delivery } from '@onceward/core'
import { nats } from '@onceward/testing'
import { handMadeGuard } from '@onceward/testing/adapter'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type JetStream, startJetStream } from './fixtures/jetstream.ts'
import { fromNatsMessage } from './index.ts'
import { operate } from './operator.ts'

let server: JetStream

beforeAll(async () => {
  server = await startJetStream()
})
afterAll(() => server[Symbol.asyncDispose]())

const operated = (query: string) =>
  operate({ url: server.url, params: new URLSearchParams(query), env: {} })

async function firstOf(stream: string): Promise<Delivery> {
  const consumer = await jetstream(server.connection).consumers.get(stream, 'billing')
  const message = await consumer.next()
  if (message === null) throw new Error('expected a message')
  const { raw: _, ...stored } = fromNatsMessage(message)
  // As a store gives it back: its envelope was read.
  return { ...stored, envelope: fromNatsMessage(message).envelope }
}

async function storedOnce(config: { readonly duplicate_window?: number } = {}) {
  const stream = await server.open(config)
  const headers = { msgID: 'order-1' }
  await jetstream(server.connection).publish(`${stream}.placed`, 'body', headers)
  const delivery = await firstOf(stream)
  return { stream, delivery, broker: operated(`stream=${stream}`) }
}

test('a stored message is sent to its stream again, with its id', async () => {
  const { stream, delivery, broker } = await storedOnce({ duplicate_window: 100e6 })
  await using _ = broker
  await broker.ready(delivery.source)
  await expect
    .poll(() =>
      broker.send(delivery).then(
        () => 'sent',
        () => 'refused',
      ),
    )
    .toBe('sent')
  const [first, second] = await server.stored(stream)
  expect(second).toMatchObject({ ...first, headers: { 'Nats-Msg-Id': 'order-1' } })
})

test('a stored message is not sent within the window of its copy', async () => {
  const { delivery, broker } = await storedOnce()
  await using _ = broker
  await expect(broker.send(delivery)).rejects.toThrow(/duplicate_window/)
})

test('the command line finds what a consumer would refuse', async () => {
  const stream = await server.open({ max_age: 30 * 86_400e9 }, { max_deliver: 2 })
  const { port } = handMadeGuard()
  await using broker = operated(`stream=${stream}&dead-letter=nowhere`)
  const { problems, warnings } = await broker.inspect(port.settings)
  expect(problems).toEqual([
    expect.stringContaining('(max_age), longer than'),
    expect.stringContaining('(max_deliver), fewer than'),
    expect.stringContaining('No stream takes the subject'),
  ])
  expect(warnings.join()).toContain('sync_interval')
})

test.each([
  ['nats://host/', 'queue=a', /no parameter `queue`/],
  ['nats:', '', /Expected nats:/],
])('%s?%s is refused', (url, query, text) => {
  const opening = () => operate({ url, params: new URLSearchParams(query), env: {} })
  expect(opening).toThrow(ConfigurationError)
  expect(opening).toThrow(text)
})

test('user and password of the URL let an operator in, and a wrong one does not', async () => {
  const settings = 'authorization { user: "op", password: "p@ss 鍵" }'
  await using own = await nats({ native: true, settings })
  const { host } = new URL(own.connection.url)
  const opened = (password: string) =>
    operate({
      url: `nats://op:${encodeURIComponent(password)}@${host}`,
      params: new URLSearchParams(),
      env: {},
    })
  const source = { broker: 'nats', queue: 'NONE' }
  await using right = opened('p@ss 鍵')
  await expect(right.ready(source)).rejects.toThrow('NONE, does not exist')
  await using wrong = opened('wrong')
  await expect(wrong.ready(source)).rejects.toThrow(/authorization/i)
})
