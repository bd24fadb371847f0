import { Clock } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import type { AmqpConnection } from '../client.ts'
import { RecordingConnection } from '../fixtures/recording-channel.ts'
import { Connector } from './connector.ts'

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
