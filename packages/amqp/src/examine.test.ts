import { ConfigurationError } from '@onceward/core'
import { handMadeGuard } from '@onceward/testing/adapter'
import { describe, expect, test } from 'vitest'
import { examine, inspect } from './doctor.ts'
import { RecordingConnection } from './fixtures/recording-channel.ts'
import { type ConsumeAmqpOptions, resolveSettings } from './options.ts'

const failure = (code: number | string, text: string): Error =>
  Object.assign(new Error(text), { code })

const throwing = (error: Error) => (): never => {
  throw error
}

const longstr = (value: string): string => `the value '${value}' of type 'longstr'`

/** A broker on which `orders` was declared with these arguments, each in the words of a refusal. */
function brokerWith(args: Readonly<Record<string, string>> = {}, version = '3.10.8') {
  const connection = new RecordingConnection(version)
  connection.answers.set('assertQueue', (queue, given) => {
    if (queue !== 'orders') return
    const declared = (given as { arguments: object }).arguments
    const [name] = Object.keys(args).filter((each) => !(each in declared))
    if (name === undefined) return
    throw failure(
      406,
      `inequivalent arg '${name}' for queue 'orders' in vhost 'shop': received none but current is ${args[name]}`,
    )
  })
  return connection
}

/** A broker that has all queues and exchanges but this one. */
function lacking(call: 'checkQueue' | 'checkExchange', missing: string, error?: Error) {
  const connection = brokerWith()
  connection.answers.set(call, (name) => {
    if (name === missing) throw error ?? failure(404, `NOT_FOUND - no '${missing}' in vhost 'shop'`)
  })
  return connection
}

/** A broker that lets nobody declare `orders`. */
function untold() {
  const connection = new RecordingConnection()
  connection.answers.set('assertQueue', (queue) => {
    if (queue === 'orders') throw failure(403, 'ACCESS_REFUSED')
  })
  return connection
}

function surroundingsOf(
  connection: RecordingConnection,
  options: Partial<ConsumeAmqpOptions> = {},
) {
  const { port, logged } = handMadeGuard()
  const settings = resolveSettings({ queue: 'orders', ...options }, port.settings)
  return {
    logged,
    surroundings: { connection: connection.connection, settings, logger: port.logger },
  }
}

const examined = (connection: RecordingConnection, options?: Partial<ConsumeAmqpOptions>) =>
  examine(surroundingsOf(connection, options).surroundings)

const checked = (connection: RecordingConnection): readonly (readonly unknown[])[] =>
  connection.named('checkQueue', 'checkExchange').map(({ name, args: [what] }) => [name, what])

describe('what is learned of a queue', () => {
  const rejecting = { 'x-dead-letter-exchange': longstr('dead') }

  test.each<[string, Readonly<Record<string, string>>, boolean, string | undefined]>([
    ['no arguments', {}, false, undefined],
    [
      'a single active consumer',
      { 'x-single-active-consumer': "the value 'true' of type 'bool'" },
      true,
      undefined,
    ],
    [
      'a single active consumer that is turned off',
      { 'x-single-active-consumer': "the value 'false' of type 'bool'" },
      false,
      undefined,
    ],
    ['a dead-letter exchange', rejecting, false, 'dead'],
    [
      'the default one as dead-letter exchange',
      { 'x-dead-letter-exchange': longstr('') },
      false,
      '',
    ],
    [
      'a dead-letter exchange and a routing key for it',
      { ...rejecting, 'x-dead-letter-routing-key': longstr('orders.dead') },
      false,
      undefined,
    ],
    [
      'a dead-letter exchange that is no name',
      { 'x-dead-letter-exchange': "the value '7' of type 'byte'" },
      false,
      undefined,
    ],
  ])('of one with %s', async (_what, args, isSingleActive, rejectsTo) => {
    expect(await examined(brokerWith(args))).toMatchObject({
      ...{ isSingleActive, rejectsTo, virtualHost: undefined },
      levels: { queue: 'orders', isQuorum: false, mayRefuse: false },
    })
  })

  test('of one whose arguments cannot be read, as little as is safe, and a warning', async () => {
    const { surroundings, logged } = surroundingsOf(untold())
    expect(await examine(surroundings)).toMatchObject({
      ...{ isSingleActive: true, rejectsTo: undefined },
      levels: { queue: 'orders', isQuorum: false },
    })
    expect(logged).toEqual([
      {
        level: 'warn',
        text: "the broker's settings do not fit the guard's",
        fields: {
          queue: 'orders',
          finding: expect.stringMatching(
            /^The arguments of 'orders' could not be read: .* Check that it is no stream/,
          ),
        },
      },
    ])
  })

  test.each<[string, ConsumeAmqpOptions['deadLetter'], string | undefined]>([
    ['are published to a queue', { queue: 'orders.dead' }, 'shop'],
    ['are published to an exchange', { exchange: 'dead', routingKey: 'orders' }, 'shop'],
    ['are rejected', 'dlx', undefined],
    ['are only recorded', undefined, undefined],
  ])('the virtual host, if dead letters %s', async (_how, deadLetter, virtualHost) => {
    const connection = brokerWith()
    connection.answers.set('checkQueue', (queue) => {
      if (!String(queue).startsWith('orders')) {
        throw failure(404, `NOT_FOUND - no queue '${String(queue)}' in vhost 'shop'`)
      }
    })
    const options = { deadLetter, deadLetterPolicy: true }
    expect(await examined(connection, options)).toMatchObject({ virtualHost })
    const isAsked = connection
      .named('checkQueue')
      .some(({ args: [name] }) => !String(name).startsWith('orders'))
    expect(isAsked).toBe(virtualHost !== undefined)
  })
})

describe('what must be there', () => {
  test.each<[string, ConsumeAmqpOptions['deadLetter'], readonly unknown[]]>([
    ['nothing is published', undefined, []],
    ['the broker dead-letters', 'dlx', []],
    ['dead letters go to a queue', { queue: 'gone' }, [['checkQueue', 'gone']]],
    [
      'dead letters go to an exchange',
      { exchange: 'gone', routingKey: 'orders' },
      [['checkExchange', 'gone']],
    ],
  ])('the queue is, and the dead-letter place, if %s', async (_how, deadLetter, more) => {
    const connection = brokerWith()
    const options = { deadLetter, deadLetterPolicy: true }
    await inspect(surroundingsOf(connection, options).surroundings)
    expect(checked(connection)).toEqual([
      ['checkQueue', 'orders'],
      ...more,
      ['checkQueue', 'orders'],
    ])
  })

  const exchange = { exchange: 'gone', routingKey: 'orders' }

  test.each<
    [string, Parameters<typeof lacking>[0], string, ConsumeAmqpOptions['deadLetter'], string]
  >([
    ['The queue of `queue`', 'checkQueue', 'orders', undefined, 'Declare it'],
    ['The queue of `deadLetter.queue`', 'checkQueue', 'gone', { queue: 'gone' }, 'Declare it'],
    ['The exchange of `deadLetter.exchange`', 'checkExchange', 'gone', exchange, 'be dropped'],
  ])('%s is refused if it is missing', async (option, call, missing, deadLetter, text) => {
    const examining = examined(lacking(call, missing), { deadLetter })
    await expect(examining).rejects.toThrow(ConfigurationError)
    await expect(examining).rejects.toThrow(new RegExp(`^${option}, '${missing}',.*${text}`))
    const error = failure('ECONNRESET', 'read ECONNRESET')
    await expect(examined(lacking(call, missing, error), { deadLetter })).rejects.toBe(error)
  })

  test('a queue that is deleted between two looks is missing too', async () => {
    const connection = brokerWith()
    connection.answers.set('checkQueue', () => {
      if (connection.named('checkQueue').length > 1) throw failure(404, 'NOT_FOUND')
    })
    await expect(examined(connection)).rejects.toThrow(/^The queue of `queue`, 'orders'/)
  })

  test('a queue that another connection has for itself is refused', async () => {
    const connection = new RecordingConnection()
    connection.answers.set('checkQueue', throwing(failure(405, 'RESOURCE_LOCKED')))
    const examining = examined(connection)
    await expect(examining).rejects.toThrow(ConfigurationError)
    await expect(examining).rejects.toThrow("'orders' is an exclusive queue")
  })

  // Red when the exchange of the queue itself is not looked at: the broker drops what it dead-letters.
  test.each([
    ['missing', 'dead', [['checkExchange', 'dead']], /`x-dead-letter-exchange`, 'dead', does not/],
    ['there', 'other', [['checkExchange', 'other']], undefined],
    ['the default one', '', [], undefined],
  ])('a dead-letter exchange of the queue that is %s', async (_what, name, looked, refusal) => {
    const connection = brokerWith({ 'x-dead-letter-exchange': longstr(name) })
    connection.answers.set('checkExchange', (exchange) => {
      if (exchange === 'dead') throw failure(404, 'NOT_FOUND')
    })
    const examining = examined(connection)
    if (refusal === undefined) await examining
    else await expect(examining).rejects.toThrow(refusal)
    expect(checked(connection).filter(([call]) => call === 'checkExchange')).toEqual(looked)
  })

  test('a dead-letter exchange that is no name is not looked for', async () => {
    const connection = brokerWith({ 'x-dead-letter-exchange': "the value '7' of type 'byte'" })
    await examined(connection)
    expect(connection.named('checkExchange')).toEqual([])
  })
})

test('what does not fit the guard is logged, and what cannot work is refused', async () => {
  const { surroundings, logged } = surroundingsOf(
    brokerWith({ 'x-queue-type': longstr('quorum') }, '4.2.0'),
    { retryLevelsMs: [100, 200, 999] },
  )
  await inspect(surroundings)
  expect(logged.map(({ fields }) => fields)).toEqual([
    { queue: 'orders', finding: expect.stringContaining('the delivery limit of 20') },
    { queue: 'orders', finding: expect.stringContaining('`retryLevelsMs` is 999 ms') },
  ])
  const stream = examined(brokerWith({ 'x-queue-type': longstr('stream') }))
  await expect(stream).rejects.toThrow("'orders' is a stream")
})

test('each channel is heard until it closes, and none stays open', async () => {
  const connection = brokerWith({ 'x-dead-letter-exchange': longstr('dead') })
  const { surroundings } = surroundingsOf(connection, { deadLetter: { queue: 'orders.dead' } })
  await inspect(surroundings)
  // One declaration is refused, which closes its channel. amqplib emits the refusal on that.
  expect(connection.named('close')).toHaveLength(connection.channels.length - 1)
  for (const channel of connection.channels) {
    expect(() => channel.emit('error', new Error('406'))).not.toThrow()
  }
})
