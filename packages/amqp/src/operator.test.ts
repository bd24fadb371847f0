import { Socket } from 'node:net'
import { ConfigurationError, type Delivery } from '@onceward/core'
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { fromAmqpMessage } from './delivery.ts'
import { message } from './fixtures/recording-channel.ts'
import { type Refusal, SmallServer } from './fixtures/small-server.ts'
import { operate } from './operator.ts'

let server: SmallServer
beforeAll(async () => {
  server = await SmallServer.start()
})
afterAll(() => server[Symbol.asyncDispose]())
afterEach(() => server.reset())

type Env = Readonly<Record<string, string>>

/** The operator of the server; `credentials` are as in a URL, and end with an @. */
const operated = (params = '', path = '', credentials = '', env: Env = {}) =>
  operate({
    url: `amqp://${credentials}${server.host}${path}`,
    params: new URLSearchParams(params),
    env,
  })

const orders = { broker: 'amqp', queue: 'orders' }

const refuse = (method: string, refusal: Refusal, queue?: string): void => {
  server.refusals.set(method, (fields) =>
    queue === undefined || fields['queue'] === queue ? refusal : undefined,
  )
}

describe('the address', () => {
  test.each(['orders', 'amqp:///shop', 'amqp://[', 'amqp://user:hunter2@'])(
    '%s is refused, and the error says how to write it',
    (url) => {
      const operating = () => operate({ url, params: new URLSearchParams(), env: {} })
      expect(operating).toThrow(ConfigurationError)
      expect(operating).toThrow('RabbitMQ to be like amqp://user@host:5672/vhost?queue=orders')
      expect(operating).not.toThrow('hunter2')
    },
  )

  test('with a parameter that has no meaning is refused', () => {
    expect(() => operated('queues=orders')).toThrow(
      /no parameter `queues`\. Expected one of queue, dead-letter, policy, heartbeat, frameMax, channelMax, locale\./,
    )
  })

  test('is shown without a user and a password', async () => {
    await using broker = operated('queue=orders', '/shop', 'app:hunter2@')
    expect(broker.place).toBe(`${server.host}/shop`)
  })

  test.each<[string, string, Env, string]>([
    ['the URL', 'app:s3%40cret@', {}, 'app:s3@cret'],
    ['the environment', '', { AMQP_USERNAME: 'app', AMQP_PASSWORD: 's3@c/r%et' }, 'app:s3@c/r%et'],
    ['both', 'app@', { AMQP_USERNAME: 'other', AMQP_PASSWORD: 'secret' }, 'app:secret'],
    ['the URL before the environment', 'app:a@', { AMQP_PASSWORD: 'b' }, 'app:a'],
    ['neither', '', {}, 'guest:guest'],
    ['a URL without a password', 'zürich@', {}, 'zürich:'],
    ['an environment without a user', '', { AMQP_PASSWORD: 'zürich' }, ':zürich'],
    ['a URL that amqplib reads', 'z%FCrich:%u20AC@', {}, 'zürich:€'],
    ['a URL with a % that begins no escape', '100%:a%zz@', {}, '100%:a%zz'],
    // Red when amqplib reads it: each byte is a character, and the server refuses the password.
    ['a URL in any script', 'zürich:%E9%8D%B5%F0%9F%94%91@', {}, 'zürich:鍵🔑'],
    ['an environment in any script', 'app@', { AMQP_PASSWORD: 'zürich鍵🔑' }, 'app:zürich鍵🔑'],
  ])('takes the user and the password from %s', async (_where, credentials, env, expected) => {
    await using broker = operated('', '', credentials, env)
    await broker.ready(orders)
    const { response } = server.latest('ConnectionStartOk') as { response: Buffer }
    expect(response.toString().split('\0').slice(1).join(':')).toBe(expected)
  })

  test('hands its virtual host and the parameters of amqplib on', async () => {
    await using broker = operated(
      'queue=orders&heartbeat=7&frameMax=8192&channelMax=9&locale=de_DE',
      '/re%2Ffunds',
    )
    await broker.ready(orders)
    expect(server.latest('ConnectionTuneOk')).toEqual({
      ...{ heartbeat: 7, frameMax: 8_192, channelMax: 9 },
    })
    expect(server.latest('ConnectionStartOk')).toMatchObject({ locale: 'de_DE' })
    expect(server.latest('ConnectionOpen')).toMatchObject({ virtualHost: 're/funds' })
  })

  test.each([
    ['amqp', 'orders', undefined, true],
    ['amqp', 'orders', 'shop', true],
    ['amqp', 'orders', '/', false],
    ['amqp', 'refunds', 'shop', false],
    ['kafka', 'orders', 'shop', false],
  ])('owns what came from %s, %s of %s: %s', async (broker, queue, namespace, isOwned) => {
    await using named = operated('queue=orders', '/shop')
    expect(named.owns({ broker, queue, namespace })).toBe(isOwned)
    await using unnamed = operated('', '/shop')
    expect(unnamed.owns({ broker, queue, namespace })).toBe(isOwned || queue === 'refunds')
  })
})

describe('the connection', () => {
  test('is made when it is first needed, once, and is closed at the end with its channels', async () => {
    {
      await using broker = operated()
      expect(server.asked).toEqual([])
      await broker.ready(orders)
      await broker.send(fromAmqpMessage(message('a'), 'orders'))
      expect(server.methods().filter((method) => method === 'ConnectionOpen')).toHaveLength(1)
      expect(server.methods().at(-1)).toBe('BasicPublish')
    }
    expect(server.methods().slice(-2)).toEqual(['ChannelClose', 'ConnectionClose'])
  })

  test('is made no more after the end', async () => {
    const broker = operated()
    await broker[Symbol.asyncDispose]()
    await expect(broker.ready(orders)).rejects.toThrow('stopped')
  })

  test('to a server that accepts and says nothing is given up after five seconds', async () => {
    const { setTimeout } = Socket.prototype
    const waits: number[] = []
    // Only the wait of the client itself is cut short.
    vi.spyOn(Socket.prototype, 'setTimeout').mockImplementation(function (this: Socket, ms, ended) {
      waits.push(ms)
      return setTimeout.call(this, ms / 100, ended)
    })
    onTestFinished(() => void vi.restoreAllMocks())
    server.refusals.set('ConnectionStartOk', () => 'silence')
    await using broker = operated()
    await expect(broker.ready(orders)).rejects.toThrow('ETIMEDOUT')
    expect(waits).toContain(5_000)
  })
})

describe('a message that is sent back', () => {
  const own = { 'Idempotency-Key': 'a', trace: 't-1' }
  const received = message(
    'a',
    { exchange: 'shop', routingKey: 'order.new' },
    { contentType: 'application/json', headers: { ...own, 'x-delivery-count': 3 } },
  )
  const delivery: Delivery = fromAmqpMessage(received, 'orders')

  // Red when it goes through its exchange: other queues would get it again.
  test('goes to its queue alone, with its own properties and headers', async () => {
    await using broker = operated()
    await broker.send(delivery)
    expect(server.sent).toEqual([
      {
        ...{ exchange: '', routingKey: 'orders', isMandatory: true, body: '{"key":"a"}' },
        properties: expect.objectContaining({
          ...{ contentType: 'application/json', deliveryMode: 2, headers: own },
        }),
      },
    ])
  })

  test.each<[string, Refusal, RegExp]>([
    ['reached no queue', 'return', /^The broker refused.*NO_ROUTE.*declare the queue 'orders'/],
    ['may not be sent', { code: 403, text: 'ACCESS_REFUSED - write' }, /ACCESS_REFUSED - write/],
    ['has no exchange', { code: 404, text: 'NOT_FOUND - no exchange' }, /NOT_FOUND - no exchange/],
  ])('was certainly not taken if it %s', async (_why, refusal, text) => {
    refuse('BasicPublish', refusal)
    await using broker = operated()
    const sending = broker.send(delivery)
    await expect(sending).rejects.toThrow(ConfigurationError)
    await expect(sending).rejects.toThrow(text)
    await expect(sending).rejects.toHaveProperty('cause', expect.any(Error))
  })

  test.each<[string, Refusal]>([
    ['the connection is lost', 'disconnect'],
    ['the broker says that it failed', 'nack'],
    ['the channel closes for another reason', { code: 506, text: 'RESOURCE_ERROR' }],
  ])('may have been taken if %s', async (_why, refusal) => {
    refuse('BasicPublish', refusal)
    await using broker = operated()
    const sending = broker.send(delivery)
    await expect(sending).rejects.toThrow()
    await expect(sending).rejects.not.toThrow(ConfigurationError)
  })

  test('is not sent while the broker blocks publishers', async () => {
    await using broker = operated()
    await broker.ready(orders)
    server.tell('ConnectionBlocked', { reason: 'low on disk' })
    await broker.ready(orders)
    const sending = broker.send(delivery)
    await expect(sending).rejects.toThrow(ConfigurationError)
    await expect(sending).rejects.toThrow('blocks publishers: low on disk')
    expect(server.sent).toEqual([])
    server.tell('ConnectionUnblocked', {})
    await broker.ready(orders)
    await broker.send(delivery)
    expect(server.sent).toHaveLength(1)
  })
})
