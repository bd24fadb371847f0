import { Clock } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { RecordingConnection } from '../fixtures/recording-channel.ts'
import { type Outgoing, PUBLISH_ID, Publisher } from './publisher.ts'

/** A message that waits in hand, as each try to publish it has it. */
const outgoing: Outgoing = {
  kind: 'deferral',
  of: {},
  exchange: '',
  routingKey: 'orders.dead',
  content: Buffer.from('{}'),
  options: { messageId: 'm-1', headers: { mine: 1 } },
  remedy: 'declare it',
}

function publisherOf() {
  const connection = new RecordingConnection()
  const clock = new Clock()
  const errors: unknown[] = []
  const publisher = new Publisher({
    runtime: clock.runtime,
    open: () => connection.createConfirmChannel(),
    onError: (error) => void errors.push(error),
  })
  return { connection, clock, publisher, errors }
}

test('messages are published mandatory and persistent, each with its own id', async () => {
  const { connection, publisher } = publisherOf()
  await publisher.publish(outgoing)
  await publisher.publish(outgoing)
  const [first, second] = connection.published()
  expect(first).toMatchObject({
    exchange: '',
    routingKey: 'orders.dead',
    options: { mandatory: true, persistent: true, messageId: 'm-1', headers: { mine: 1 } },
  })
  expect(first?.options.headers[PUBLISH_ID]).not.toBe(second?.options.headers[PUBLISH_ID])
  expect(connection.named('createConfirmChannel')).toHaveLength(1)
})

// Red when the confirm alone counts: it says that the broker has seen the message, not that a queue took it.
test('trap A2: a message that is returned is not published, whatever the confirm says', async () => {
  const { connection, publisher } = publisherOf()
  connection.answers.set('publish', (_exchange, routingKey, _content, options) => {
    const { headers } = options as { headers: object }
    const isMissing = routingKey === 'missing'
    if (isMissing) {
      connection.channels[0]?.emit('return', {
        fields: { replyText: 'NO_ROUTE' },
        properties: { headers },
      })
    }
    return undefined
  })
  const there = publisher.publish(outgoing)
  const missing = publisher.publish({ ...outgoing, routingKey: 'missing' })
  await expect(missing).rejects.toThrow(/no queue took .*'missing' \(NO_ROUTE\); declare it/)
  await expect(there).resolves.toBeUndefined()
  connection.channels[0]?.emit('return', { fields: {}, properties: { headers: undefined } })
})

test('a channel that closes reports its error, and the next message gets another channel', async () => {
  const { connection, publisher, errors } = publisherOf()
  connection.answers.set('publish', () => {
    const [channel] = connection.channels
    if (connection.channels.length > 1) return undefined
    channel?.emit('error', new Error('404 NOT_FOUND - no exchange'))
    channel?.emit('close')
    return new Error('channel closed')
  })
  await expect(publisher.publish(outgoing)).rejects.toThrow('404 NOT_FOUND - no exchange')
  expect(errors).toHaveLength(1)
  await publisher.publish(outgoing)
  expect(connection.named('createConfirmChannel')).toHaveLength(2)
})

test('a missing confirm is an error after ten seconds', async () => {
  const { connection, publisher, clock } = publisherOf()
  connection.answers.set('publish', () => 'no confirm')
  const published = expect(publisher.publish(outgoing)).rejects.toThrow(/10000 ms/)
  await clock.advance(10_000)
  await published
  expect(clock.timers).toBe(0)
})

const KINDS = ['deferral', 'dead-letter'] as const
const IDENTITIES = [{}, 'letter-1'] as const
const CELLS = KINDS.flatMap((kind) => IDENTITIES.map((of) => ({ kind, of, name: typeof of })))

/** A message whose confirm has been missing for ten seconds, and further tries to publish it. */
async function late(what: Pick<Outgoing, 'kind' | 'of'>) {
  const kit = publisherOf()
  const { connection, publisher, clock } = kit
  connection.answers.set('publish', () => 'no confirm')
  const again = async (): Promise<string> => {
    const answer = publisher.publish({ ...outgoing, ...what }).then(
      () => 'published',
      (error: unknown) => String(error),
    )
    await clock.advance(10_000)
    return answer
  }
  expect(await again()).toMatch(/10000 ms/)
  return { ...kit, again }
}

// Red when each try publishes: one letter becomes four during an alarm of a minute.
test.each(CELLS)(
  'trap B5: a $kind ($name) whose confirm is late is not published again',
  async (what) => {
    const { connection, publisher, again } = await late(what)
    expect(await again()).toMatch(/10000 ms/)
    expect([connection.published().length, publisher.unconfirmed]).toEqual([1, 1])
    connection.unconfirmed[0]?.(null)
    expect(await again()).toBe('published')
    expect([connection.published().length, publisher.unconfirmed]).toEqual([1, 0])
    // That was answered: another call for it is another message.
    await again()
    expect(connection.published()).toHaveLength(2)
  },
)

test.each(CELLS)(
  'a $kind ($name) that is refused late, or whose channel closes, is published again',
  async (what) => {
    for (const lost of [new Error('message nacked'), new Error('channel closed')]) {
      const { connection, again, clock } = await late(what)
      connection.unconfirmed[0]?.(lost)
      await clock.advance(0)
      connection.answers.delete('publish')
      expect(await again()).toBe('published')
      expect(connection.published()).toHaveLength(2)
    }
  },
)

test('a message that is returned after its confirm was given up is not published', async () => {
  const { connection, again, clock } = await late({ kind: 'deferral', of: {} })
  const [published] = connection.published()
  const { headers } = published?.options ?? {}
  connection.channels[0]?.emit('return', { fields: {}, properties: { headers } })
  connection.unconfirmed[0]?.(null)
  await clock.advance(0)
  connection.answers.delete('publish')
  expect(await again()).toBe('published')
  expect(connection.published()).toHaveLength(2)
})

// Red when it stops listening at once: the message counts as published, and no queue has it.
test('a publisher that is released hears of returns until the last confirm, and then leaves its channel', async () => {
  const { connection, publisher, clock } = publisherOf()
  connection.answers.set('publish', () => 'no confirm')
  const missing = publisher.publish(outgoing)
  await clock.advance(0)
  publisher.release()
  await clock.advance(0)
  const [channel] = connection.channels
  const { headers } = connection.published()[0]?.options ?? {}
  channel?.emit('return', { fields: { replyText: 'NO_ROUTE' }, properties: { headers } })
  connection.unconfirmed[0]?.(null)
  await expect(missing).rejects.toThrow(/NO_ROUTE/)
  const counts = () => ['error', 'close', 'return'].map((event) => channel?.listenerCount(event))
  expect(counts()).toEqual([0, 0, 0])
  // A handler that outlives its drain may still settle.
  connection.answers.clear()
  await publisher.publish(outgoing)
  await clock.advance(0)
  expect([connection.published().length, connection.channels.length, counts()]).toEqual([
    ...[2, 2, [0, 0, 0]],
  ])
})

// Red when only what is on the wire counts: the message waits for its channel, and nobody would hear of its return.
test('a publisher that is released while a message waits for the channel hears of its return', async () => {
  const { connection, publisher, clock } = publisherOf()
  const create = connection.createConfirmChannel.bind(connection)
  const opening = Promise.withResolvers<void>()
  connection.createConfirmChannel = () => opening.promise.then(create)
  connection.answers.set('publish', () => 'no confirm')
  const missing = publisher.publish(outgoing)
  await clock.advance(0)
  publisher.release()
  opening.resolve()
  await clock.advance(0)
  const [channel] = connection.channels
  const { headers } = connection.published()[0]?.options ?? {}
  channel?.emit('return', { fields: { replyText: 'NO_ROUTE' }, properties: { headers } })
  connection.unconfirmed[0]?.(null)
  await expect(missing).rejects.toThrow(/NO_ROUTE/)
  expect(channel?.listenerCount('return')).toBe(0)
})

// Red when a publisher keeps what failed to open: this process never defers and never dead-letters again.
test('a confirm channel that cannot be opened is asked for again by the next message', async () => {
  const { connection, publisher } = publisherOf()
  const create = connection.createConfirmChannel.bind(connection)
  const errors = [new Error('no channel'), new Error('Connection closed')]
  connection.createConfirmChannel = () => {
    const error = errors.pop()
    return error === undefined ? create() : Promise.reject(error)
  }
  await expect(publisher.publish(outgoing)).rejects.toThrow('Connection closed')
  await expect(publisher.publish(outgoing)).rejects.toThrow('no channel')
  await publisher.publish(outgoing)
  expect(connection.published()).toHaveLength(1)
})

test('the error of a publish that the client refuses says what to do, or what is too large', async () => {
  const { connection, publisher } = publisherOf()
  const refuse = (error: Error): void => {
    connection.answers.set('publish', () => {
      throw error
    })
  }
  const cause = new TypeError('odd')
  refuse(cause)
  await expect(publisher.publish(outgoing)).rejects.toMatchObject({
    message: expect.stringContaining('declare it'),
    cause,
  })
  refuse(new RangeError('headers too large'))
  await expect(publisher.publish(outgoing)).rejects.toThrow(/headers too large/)
  Object.assign(connection, { frameMax: 10 })
  await expect(publisher.publish(outgoing)).rejects.toThrow(/at most 10 \(frameMax\)/)
  expect(connection.published()).toHaveLength(2)
})
