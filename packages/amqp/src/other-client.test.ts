import { handMadeGuard } from '@onceward/testing/adapter'
import { describe, expect, test } from 'vitest'
import { consumeAmqp } from './consume.ts'
import { wrapAmqp } from './wrap.ts'

const { guard } = handMadeGuard()
const options = { queue: 'orders' }
const nothing = (): undefined => undefined

// Red before: the consumer took each TypeError for a broker that is down, and tried for ever.
test.each<[string, unknown]>([
  ['a URL', 'amqp://guest:hunter2@mq.test'],
  ['a promise of a connection', new Promise(() => undefined)],
  ['a channel', { checkQueue: nothing, consume: nothing, on: nothing }],
  ['amqplib itself', { connect: nothing }],
  ['nothing', undefined],
  ['null', null],
])('consumeAmqp refuses %s instead of a connection, and says what to give', async (_, given) => {
  const refused = expect(consumeAmqp(given as never, guard, options)).rejects
  await refused.toMatchObject({
    code: 'ONCEWARD_CONFIGURATION',
    message: expect.stringMatching(/^Expected consumeAmqp to get .*\(\) => amqp\.connect\(url\)/),
  })
  await expect(consumeAmqp(given as never, guard, options)).rejects.not.toThrow('hunter2')
})

describe('a connection of amqplib/callback_api', () => {
  // Its channels come by a callback. The channel that is not open yet is answered too.
  const connection = { createChannel: () => ({}), createConfirmChannel: () => ({}), on: nothing }

  // Red before: `running` for ever, and no message ever came.
  test.each<[string, unknown]>([
    ['itself', connection],
    ['from a function', async () => connection],
  ])('%s ends the start with an error that names the other import', async (_, given) => {
    await expect(consumeAmqp(given as never, guard, options)).rejects.toMatchObject({
      code: 'ONCEWARD_CONFIGURATION',
      message: expect.stringContaining('Connect with `amqplib`, not with `amqplib/callback_api`'),
    })
  })
})

/** A channel of `createChannel()`, by its methods. */
class Channel {
  readonly publish = nothing
}

// Red before for what has no prototype, such as `import * as amqplib`: a TypeError about something else.
test.each<[string, string, () => unknown]>([
  ['a channel without confirms', 'Channel', () => new Channel()],
  ['nothing', 'undefined', nothing],
  ['null', 'null', () => null],
  ['a URL', 'String', () => 'amqp://guest:hunter2@mq.test'],
  ['a promise of a channel', 'Promise', () => Promise.resolve()],
  ['what has no prototype', 'object', () => Object.create(null)],
  ['what has no class', 'object', () => ({ constructor: undefined })],
  ['a class with an odd name', 'Symbol(odd)', () => ({ constructor: { name: Symbol('odd') } })],
])('wrapAmqp refuses %s, and says what it got (%s) and what to give', (_, kind, given) => {
  const message = expect.stringMatching(
    /: without confirms it is unknown .* Create it with `connection\.createConfirmChannel\(\)`\.$/,
  )
  const refused = expect(() => wrapAmqp(given() as never, guard, options))
  refused.toThrow(expect.objectContaining({ code: 'ONCEWARD_CONFIGURATION', message }))
  refused.toThrow(`Expected a confirm channel, got ${kind}: `)
})
