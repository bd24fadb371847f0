import {
  ConfigurationError,
  createGuard,
  type GuardEvent,
  RetryableError,
  unwrapEventBridge,
  unwrapSns,
} from '@onceward/core'
import { memoryInbox } from '@onceward/core/memory'
import { describe, expect, test } from 'vitest'
import { consumer, setUp, silent } from './fixtures/billing.ts'
import { bridgeEvent, contextOf, snsRecord } from './fixtures/events.ts'
import { rawsOf } from './fixtures/replay.ts'
import { lambdaEventBridge, lambdaSns } from './index.ts'

const order = { orderId: 'o-1' }
const failing = { does: 'fails' }

function collecting(given: object = {}) {
  const events: GuardEvent<unknown>[] = []
  const options = { consumer, inbox: memoryInbox(), logger: silent, ...given }
  const guard = createGuard(options, async (event) => void events.push(event))
  return { events, guard }
}

describe('lambdaSns', () => {
  test.each([{}, { decode: unwrapSns() }])(
    'runs the message that was published once, with the id of SNS as its key: %#',
    async (given) => {
      const { events, guard } = collecting(given)
      const record = snsRecord('id-1', JSON.stringify(order), {
        'Content-Type': { Type: 'String', Value: 'application/json' },
        bytes: { Type: 'Binary', Value: 'AQ==' },
        odd: { Type: 'String', Value: 5 as never },
      })
      const handler = lambdaSns(guard)
      for (let time = 0; time < 3; time++) {
        expect(await handler({ Records: [record] }, contextOf(9_000))).toBeUndefined()
      }
      expect(events).toMatchObject([
        {
          ...{ key: 'id-1', payload: order, messageId: 'id-1', contentType: 'application/json' },
          source: { broker: 'sns', queue: record.Sns.TopicArn, position: 'id-1' },
          redelivered: true,
          producedAt: new Date('2026-11-22T10:00:00.000Z'),
          raw: record,
        },
      ])
      expect(Object.keys(events[0]!.headers)).toEqual(['content-type'])
    },
  )

  test('prefers the key that the publisher set', async () => {
    const { events, guard } = collecting()
    const attributes = { 'Idempotency-Key': { Type: 'String', Value: 'k-1' } }
    const again = ['id-1', 'id-2'].map((id) => snsRecord(id, '{}', attributes))
    await lambdaSns(guard)({ Records: again })
    expect(events.map(({ key }) => key)).toEqual(['k-1'])
  })

  test('throws for a message that is not done, and not for a dead one unless a destination has it', async () => {
    const { guard } = setUp()
    const handler = lambdaSns(guard)
    const invoking = handler({ Records: [snsRecord('id-1', JSON.stringify(failing))] })
    await expect(invoking).rejects.toThrow(RetryableError)
    await expect(invoking).rejects.toMatchObject({ cause: { message: 'not now' } })
    const dead = { Records: [snsRecord('id-2', JSON.stringify({ does: 'fatal' }))] }
    await handler(dead)
    const leaving = lambdaSns(guard, { deadLetter: 'destination' })
    await expect(leaving(dead)).rejects.toThrow(/dead-letter, fatal/)
  })

  test.each([
    undefined,
    {},
    { Records: [{}] },
    { Records: [{ eventSource: 'aws:sqs', body: '' }] },
    ...['Message', 'TopicArn', 'MessageId'].map((name) => {
      const record = snsRecord('id-1', '{}')
      return { Records: [record, { ...record, Sns: { ...record.Sns, [name]: undefined } }] }
    }),
  ])('refuses an event of another source: %j', async (event) => {
    const { guard } = setUp()
    await expect(lambdaSns(guard)(event as never)).rejects.toThrow(ConfigurationError)
  })
})

describe('lambdaEventBridge', () => {
  test.each([
    [{}, bridgeEvent('id-1', order)],
    [{ decode: unwrapEventBridge() }, order],
  ])('runs an event once, with its id as the key: %#', async (given, payload) => {
    const { events, guard } = collecting(given)
    const handler = lambdaEventBridge(guard)
    for (let time = 0; time < 3; time++) {
      expect(await handler(bridgeEvent('id-1', order), contextOf(9_000))).toBeUndefined()
    }
    expect(events).toMatchObject([
      {
        ...{ key: 'id-1', messageId: 'id-1', payload, raw: bridgeEvent('id-1', order) },
        source: { broker: 'eventbridge', queue: 'my.shop', position: 'id-1' },
        ...{ producedAt: new Date('2026-11-22T10:00:00Z'), redelivered: true },
      },
    ])
  })

  test('takes the transformed input of a rule, whose key the guard must know', async () => {
    const { events, guard } = collecting({
      eventKey: ({ payload }: { readonly payload: typeof order }) => payload.orderId,
    })
    await lambdaEventBridge(guard)({ ...order, id: 5, source: 5, time: null, records: {} })
    expect(events).toMatchObject([
      {
        ...{ key: 'o-1', payload: { ...order, records: {} } },
        ...{ messageId: undefined, producedAt: undefined },
        source: { queue: 'unknown', position: undefined },
      },
    ])
  })

  test('throws for an event that is not done', async () => {
    const { guard } = setUp({ decode: unwrapEventBridge() })
    const invoking = lambdaEventBridge(guard)(bridgeEvent('id-1', failing))
    await expect(invoking).rejects.toThrow(/^1 of 1 messages are not done/)
  })

  const ofKafka = { eventSource: 'aws:kafka', records: { 'orders-0': [{ topic: 'orders' }] } }
  test.each([undefined, null, 'text', [], { Records: [] }, ofKafka])(
    'refuses what is no event: %j',
    async (event) => {
      const { guard } = setUp()
      await expect(lambdaEventBridge(guard)(event as never)).rejects.toThrow(ConfigurationError)
    },
  )
})

test.each(['{"text":"schön"}', '\ud800', ''])(
  'a replayed dead letter of SNS has its record in raw again: %j',
  async (text) => {
    const record = snsRecord('id-1', text, { a: { Type: 'String', Value: 'x' } })
    const raws = await rawsOf((guard, isEmpty) =>
      lambdaSns(guard)({ Records: isEmpty ? [] : [record] }),
    )
    expect(raws).toStrictEqual([record, record])
  },
)

test('a replayed dead letter of EventBridge has its event in raw again', async () => {
  const event = bridgeEvent('id-1', { text: 'schön' })
  const raws = await rawsOf((guard, isEmpty) =>
    isEmpty ? lambdaSns(guard)({ Records: [] }) : lambdaEventBridge(guard)(event),
  )
  expect(raws).toStrictEqual([event, event])
})
