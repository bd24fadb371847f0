import type { EpochMs, Settlement } from '@onceward/core'
import { expect, test } from 'vitest'
import { message } from './fixtures/recording-channel.ts'
import { settleAmqp } from './index.ts'

function setUp(fails = false) {
  const told: unknown[][] = []
  const tell =
    (verb: string) =>
    (_message: unknown, ...more: unknown[]): void => {
      if (fails) throw new Error('Channel closed')
      told.push([verb, ...more])
    }
  const channel = { ack: tell('ack'), nack: tell('nack') }
  return {
    told,
    settle: (settlement: Settlement) => settleAmqp(channel, message('orders'), settlement),
  }
}

test.each<[Settlement, unknown[]]>([
  [{ kind: 'ack', by: 'duplicate' }, ['ack']],
  [{ kind: 'dead-letter', reason: 'fatal' }, ['nack', false, false]],
  [{ kind: 'abandon', reason: 'closing' }, ['nack', false, true]],
])('%j is carried out at once', async (settlement, expected) => {
  const { settle, told } = setUp()
  expect(await settle(settlement)).toBe(true)
  expect(told).toEqual([expected])
})

// Red when it is returned at once: RabbitMQ delivers it again at once, a thousand times a second.
test('a message that is not due is held until then, and returned', async () => {
  const { settle, told } = setUp()
  const until = (Date.now() + 1_500) as EpochMs
  const settling = settle({ kind: 'defer', reason: 'not-due', until })
  expect(told).toEqual([])
  await settling
  expect(Date.now()).toBeGreaterThanOrEqual(until - 5)
  expect(told).toEqual([['nack', false, true]])
})

test('a channel that is closed is no error: the message comes again', async () => {
  const { settle } = setUp(true)
  expect(await settle({ kind: 'ack', by: 'processed' })).toBe(false)
})
