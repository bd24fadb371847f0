import { Clock } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import type { AmqpConnection } from '../client.ts'
import { RecordingConnection } from '../fixtures/recording-channel.ts'
import { Connector, serverVersion } from './connector.ts'

function connectorOf(source?: AmqpConnection | (() => Promise<AmqpConnection>)) {
  const clock = new Clock()
  const connections: RecordingConnection[] = []
  const opened = async (): Promise<AmqpConnection> => {
    const connection = new RecordingConnection()
    connections.push(connection)
    return connection.connection
  }
  const told: unknown[] = []
  const connector = new Connector({
    source: source ?? opened,
    runtime: clock.runtime,
    onBlocked: (reason) => void told.push(['blocked', reason]),
    onGone: (error) => void told.push(['gone', error]),
    onError: () => undefined,
  })
  return { clock, connections, connector, told }
}

const closes = (connection: RecordingConnection): number =>
  connection.named('connection.close').length

// Red when the answer is taken as it comes: a process that was stopped holds a connection, and consumes on it.
test('a connection that opens after the stop is closed, and nobody gets it', async () => {
  const late = Promise.withResolvers<AmqpConnection>()
  const { connector } = connectorOf(() => late.promise)
  const opening = expect(connector.open()).rejects.toThrow('stopped')
  await connector.close()
  const connection = new RecordingConnection()
  late.resolve(connection.connection)
  await opening
  expect([closes(connection), connection.eventNames()]).toEqual([1, ['error']])
})

test('after the stop no connection is made, for consuming or for publishing', async () => {
  const { connector, connections } = connectorOf()
  await connector.close()
  await expect(connector.open()).rejects.toThrow('stopped')
  await expect(connector.openChannel()).rejects.toThrow('stopped')
  expect(connections).toEqual([])
})

test('two callers at once get the same connection, and after its end another one', async () => {
  const { connector, connections } = connectorOf()
  const [first, second] = await Promise.all([connector.open(), connector.open()])
  expect([first === second, connections.length]).toEqual([true, 1])
  connections[0]?.emit('close')
  expect(await connector.open()).toBe(connections[1])
})

test('the late end of a connection that was discarded leaves the present one in use', async () => {
  const { connector, connections } = connectorOf()
  await connector.open()
  connector.discard()
  const second = await connector.open()
  connections[0]?.emit('close')
  expect(await connector.open()).toBe(second)
})

// Both are events of amqplib's own recovery.
test('a connection that recovers is not blocked any more, and one that gives up is gone', async () => {
  const recovering = new RecordingConnection()
  const { connector, told } = connectorOf(recovering.connection)
  await connector.open()
  recovering.emit('blocked', 'low on memory')
  recovering.emit('disconnect')
  expect(told).toEqual([
    ['blocked', 'low on memory'],
    ['blocked', undefined],
  ])
  const error = new Error('gave up')
  recovering.emit('reconnect-failed', error)
  expect(told.slice(2)).toEqual([
    ['blocked', undefined],
    ['gone', error],
  ])
})

test('nothing is published on a connection of the user that is not there', async () => {
  const connection = new RecordingConnection()
  const { connector } = connectorOf(connection.connection)
  await expect(connector.openChannel()).rejects.toThrow('no connection to the broker')
  await connector.open()
  await connector.openChannel()
  expect(connection.channels).toHaveLength(1)
})

// amqplib says exactly this of a recovering connection that its user closed, and more of one that it is about to replace.
test('an error says that a connection is over only of one of the user', () => {
  const direct = new RecordingConnection().connection
  const never = (): Promise<never> => new Promise(() => undefined)
  const recovering = { createChannel: never, createConfirmChannel: never, on: () => undefined }
  const isOver = (source: AmqpConnection | undefined, message: string): boolean =>
    connectorOf(source).connector.isOver(new Error(message))
  expect(isOver(undefined, 'Connection closed')).toBe(false)
  expect(isOver(recovering, 'Connection closed')).toBe(true)
  expect(isOver(recovering, 'Connection closed: 320 (CONNECTION-FORCED)')).toBe(false)
  expect(isOver(direct, 'Connection closed (by client)')).toBe(true)
  expect(isOver(direct, 'Channel closed')).toBe(false)
})

test.each([
  ['does not answer', () => new Promise<never>(() => undefined), 1],
  ['says that the connection is closed', () => Promise.reject(new Error('Connection closed')), 1],
  ['refuses', () => Promise.reject(Object.assign(new Error('no'), { code: 403 })), 0],
])(
  'a connection whose channel %s is replaced where that may help',
  async (_what, answer, replaced) => {
    const { connector, connections, clock } = connectorOf()
    await connector.open()
    const [connection] = connections as [RecordingConnection]
    connection.createConfirmChannel = answer
    const opening = expect(connector.openChannel()).rejects.toThrow()
    await clock.advance(10_000)
    await opening
    expect(closes(connection)).toBe(replaced)
    Reflect.deleteProperty(connection, 'createConfirmChannel')
    await connector.openChannel()
    expect(connections).toHaveLength(1 + replaced)
  },
)

test('a channel that opens too late is closed', async () => {
  const { connector, connections, clock } = connectorOf()
  await connector.open()
  const [connection] = connections as [RecordingConnection]
  const late = Promise.withResolvers<never>()
  connection.createConfirmChannel = () => late.promise
  const opening = expect(connector.openChannel()).rejects.toThrow(/10000 ms/)
  await clock.advance(10_000)
  await opening
  late.resolve((await connection.createChannel()) as never)
  await clock.advance(0)
  expect(connection.named('close')).toHaveLength(1)
})

// Red when it is closed: the rest of the process uses it.
test('a connection of the user is not closed by a consumer that was stopped while it began', async () => {
  const connection = new RecordingConnection()
  const { connector } = connectorOf(connection.connection)
  const opening = expect(connector.open()).rejects.toThrow('stopped')
  await connector.close()
  await opening
  expect(closes(connection)).toBe(0)
})

test.each<[string, () => unknown, RegExp]>([
  ['throws', () => Promise.reject(new Error('ECONNREFUSED')), /^ECONNREFUSED$/],
  ['throws nothing', () => Promise.reject(), /undefined/],
  ['answers nothing', async () => undefined, /answered no connection/],
  ['answers null', async () => null, /answered no connection/],
])('a connection function that %s is an error that can be read', async (_what, source, text) => {
  const { connector } = connectorOf(source as never)
  await expect(connector.open()).rejects.toThrow(text)
})

test('a connection without a close is given up all the same', async () => {
  const connection = Object.assign(new RecordingConnection(), { close: undefined })
  const { connector } = connectorOf(async () => connection as never)
  await connector.open()
  connector.discard()
  await connector.open()
  await connector.close()
})

test.each<[string, unknown, readonly number[] | undefined]>([
  ['4.2.0', { serverProperties: { version: '4.2.0' } }, [4, 2]],
  ['10.12', { serverProperties: { version: '10.12' } }, [10, 12]],
  ['another text', { serverProperties: { version: 'v4.2.0' } }, undefined],
  ['one number', { serverProperties: { version: '4' } }, undefined],
  ['none', { serverProperties: {} }, undefined],
  ['no properties', { serverProperties: null }, undefined],
  ['no connection', null, undefined],
  ['a text for a connection', 'connection', undefined],
])('the version of a server that tells %s', (_what, connection, version) => {
  expect(serverVersion({ connection } as never)).toEqual(version)
})
