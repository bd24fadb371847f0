import { FatalError, type OutgoingMessage } from '@onceward/core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type JetStream, startJetStream } from '../fixtures/jetstream.ts'
import { natsDestination } from '../index.ts'

let server: JetStream

beforeAll(async () => {
  server = await startJetStream()
})
afterAll(() => server[Symbol.asyncDispose]())

const message = (over: Partial<OutgoingMessage> = {}): OutgoingMessage =>
  ({
    ...{ id: 'm-1', key: 'order-1', type: 'order.placed', source: '/orders' },
    ...{ contentType: 'application/json', headers: { trace: 't' }, payload: Buffer.from('{}') },
    ...over,
  }) as OutgoingMessage
const { signal } = new AbortController()

test('a message leaves with its id as Nats-Msg-Id, and what is sent twice is in the stream once', async () => {
  const stream = await server.open({})
  const subject = ({ key = '' }: { readonly key?: string | undefined }) => `${stream}.${key}`
  const destination = natsDestination(server.connection, { subject, stream })
  expect(await destination.publish([message(), message()], signal)).toEqual([undefined, undefined])
  expect(await server.stored(stream)).toEqual([
    {
      ...{ subject: `${stream}.order-1`, body: '{}' },
      headers: expect.objectContaining({
        ...{ 'Nats-Msg-Id': 'm-1', 'idempotency-key': 'm-1', 'ce-id': 'm-1', trace: 't' },
      }),
    },
  ])
})

test('a message that is too large or has no subject is refused, and a subject without a stream is down', async () => {
  const stream = await server.open({ max_msg_size: 200 })
  const to = (subject: string | (() => string)) =>
    natsDestination(server.connection, { subject }).publish(
      [message({ payload: Buffer.alloc(1_000) })],
      signal,
    )
  const refused = [{ refused: expect.any(Error) }]
  expect(await to(`${stream}.a`)).toEqual(refused)
  expect(await to(() => 'a.*')).toEqual(refused)
  expect(
    await to(() => {
      throw new FatalError('no subject')
    }),
  ).toEqual(refused)
  expect(await to('nowhere')).toEqual([{ down: expect.any(Error) }])
})
