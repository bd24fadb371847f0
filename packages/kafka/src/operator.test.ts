import { ConfigurationError } from '@onceward/core'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { handshakeServer } from './fixtures/handshake-server.ts'
import { operate } from './operator.ts'

const at = (
  url = 'kafka://host:9092',
  params = 'topic=orders',
  env: Readonly<Record<string, string>> = {},
) => operate({ url, params: new URLSearchParams(params), env })

describe('the address of a cluster', () => {
  // Red when the error of the runtime comes out: 'URI malformed' says neither what nor where.
  test.each(['kafka://us%er:secret@host:9092', 'kafka://user:100%@host:9092'])(
    '%s is refused, and the error says what to write',
    (url) => {
      expect(() => at(url)).toThrow(ConfigurationError)
      expect(() => at(url)).toThrow(/Write %25 for %/)
      expect(() => at(url)).not.toThrow(/secret|100/)
    },
  )

  test.each([
    ['no scheme', 'host:9092'],
    ['another scheme', 'mykafka://host:9092'],
    ['a path', 'kafka://host:9092/orders'],
    ['no host', 'kafka://'],
  ])('that has %s is refused', (_what, url) => {
    expect(() => at(url)).toThrow(ConfigurationError)
    expect(() => at(url)).toThrow(/address of Kafka to be like kafka:\/\/host:9092,host2:9092/)
  })

  test.each([
    ['another parameter', 'topics=orders', /no parameter `topics`\. Expected one of topic, group/],
    ['another mechanism', 'sasl=md5', /`sasl` to be one of plain, scram-sha-256, scram-sha-512/],
  ])('that has %s is refused', (_what, params, error) => {
    expect(() => at('kafka://host:9092', params)).toThrow(ConfigurationError)
    expect(() => at('kafka://host:9092', params)).toThrow(error)
  })

  test('with a password and without a user is refused, unless the environment has one', () => {
    expect(() => at('kafka://:secret@host:9092')).toThrow(/password and no user.*KAFKA_USERNAME/)
    expect(() => at('kafka://:secret@host:9092', '', { KAFKA_USERNAME: 'app' })).not.toThrow()
  })

  test('with a user and without a password is refused', () => {
    expect(() => at('kafka://app@host:9092')).toThrow(ConfigurationError)
    expect(() => at('kafka://app@host:9092')).toThrow(/no password\. Set KAFKA_PASSWORD/)
  })

  test.each([
    ['kafkas://us%25er:p%40s%2Fs@host:9092', 'host:9092'],
    ['kafka://one:9092,two:9093/', 'one:9092,two:9093'],
  ])('%s is shown without its credentials', async (url, place) => {
    await using broker = at(url)
    expect(broker.place).toBe(place)
  })

  test.each([
    ['topic=orders&topic=refunds', 'kafka', 'refunds', true],
    ['topic=orders&topic=refunds', 'kafka', 'others', false],
    ['topic=orders', 'amqp', 'orders', false],
    ['', 'kafka', 'others', true],
    ['', 'amqp', 'others', false],
  ])('%s owns what came from %s, %s: %s', async (params, broker, queue, owned) => {
    await using operator = at('kafka://host:9092', params)
    expect(operator.owns({ broker, queue })).toBe(owned)
  })
})

describe('a connection', () => {
  const environment = { KAFKA_USERNAME: 'ops', KAFKA_PASSWORD: 'env-secret' }

  test.each<[string, string, string, Readonly<Record<string, string>>, object]>([
    ['without TLS', 'kafka://', '', {}, {}],
    ['with TLS', 'kafkas://', '', {}, { isTls: true, clientId: undefined }],
    [
      'with the user of the address',
      ...(['kafka://us%25er:p%40s%2Fs@', '', environment] as const),
      { mechanism: 'PLAIN', credentials: '\0us%er\0p@s/s' },
    ],
    [
      'with the user of the environment',
      ...(['kafka://', '', environment] as const),
      { mechanism: 'PLAIN', credentials: '\0ops\0env-secret' },
    ],
    [
      'with the password of the environment',
      ...(['kafka://app@', '', environment] as const),
      { mechanism: 'PLAIN', credentials: '\0app\0env-secret' },
    ],
    [
      'with another mechanism',
      ...(['kafka://app:secret@', 'sasl=scram-sha-512', {}] as const),
      { mechanism: 'SCRAM-SHA-512', credentials: expect.stringContaining('n=app') },
    ],
  ])('%s: what is sent to log in', async (_what, scheme, params, env, expected) => {
    await using server = await handshakeServer()
    await using broker = at(`${scheme}${server.address}`, params, env)
    await expect(broker.ready({ broker: 'kafka', queue: 'orders' })).rejects.toThrow()
    expect(server.handshakes[0]).toEqual({ isTls: false, clientId: 'onceward', ...expected })
  })

  test('is made to any of the servers', async () => {
    await using server = await handshakeServer()
    await using broker = at(`kafka://127.0.0.1:1,${server.address}`)
    await expect(broker.ready({ broker: 'kafka', queue: 'orders' })).rejects.toThrow()
    expect(server.handshakes).not.toEqual([])
  })

  test('is tried three times, each for five seconds, because an operator waits', async () => {
    const timers = vi.spyOn(globalThis, 'setTimeout')
    onTestFinished(() => timers.mockRestore())
    await using broker = at('kafka://127.0.0.1:1')
    await expect(broker.ready({ broker: 'kafka', queue: 'orders' })).rejects.toThrow(/ECONNREFUSED/)
    const delays = timers.mock.calls.map(([, delayMs]) => delayMs)
    expect(delays.filter((delayMs) => delayMs === 5_000)).toHaveLength(3)
  })
})
