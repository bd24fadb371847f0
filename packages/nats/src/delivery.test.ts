import { deadLetterOf } from '@onceward/testing/adapter'
import { describe, expect, test } from 'vitest'
import { createPublisher, deadLetterMessage } from './dead-letter.ts'
import { fromNatsMessage, infoOf, natsMessage, toDelivery } from './delivery.ts'
import { JetStreamError } from './errors.ts'
import { handMadeApi, pulled } from './fixtures/hand-made-api.ts'

const stored = (delivery: ReturnType<typeof fromNatsMessage>) => ({
  ...delivery,
  raw: undefined,
})

describe('a delivery', () => {
  test('has what the server says of the message', () => {
    const named = { 'Content-Type': 'application/json', 'Nats-Msg-Id': 'm-1', 'Ce-Id': 'e' }
    expect(toDelivery(pulled({ count: 2 }, named), {}, 'then')).toMatchObject({
      source: { broker: 'nats', queue: 'ORDERS', position: '7', incarnation: 'then' },
      headers: { 'content-type': 'application/json', 'ce-id': 'e' },
      ...{ contentType: 'application/json', messageId: 'm-1' },
      ...{ deliveryCount: 2, redelivered: true, producedAt: new Date(1_700_000_000_000) },
    })
    expect(toDelivery(pulled(), {}).redelivered).toBe(false)
  })

  test.each([
    [{}, undefined],
    [{ orderingSubject: true }, 'orders.42.placed'],
    [{ orderingSubject: 2 }, '42'],
    [{ orderingSubject: 9 }, undefined],
    [{ orderingHeader: 'Lane' }, 'l'],
    [{ orderingHeader: 'other' }, undefined],
  ] as const)('has the ordering key that %o says', (options, key) => {
    expect(fromNatsMessage(pulled({}, { LANE: 'l' }), options).orderingKey).toBe(key)
  })

  test('of a stored message has all of it back', () => {
    const message = pulled({}, { Trace: 't' })
    message.headers?.append('Trace', 'u')
    const { reply: _, ...whole } = message
    const back = natsMessage(stored(fromNatsMessage(message)))
    expect({ ...back, headers: [...(back?.headers ?? [])] }).toEqual({
      ...whole,
      headers: [['Trace', ['t', 'u']]],
    })
    expect(
      natsMessage({ ...stored(fromNatsMessage(message)), envelope: Buffer.of(9) }),
    ).toBeUndefined()
  })

  test.each([
    [
      '$JS.ACK.S.C.2.5.9.1700.3',
      { stream: 'S', consumer: 'C', deliveryCount: 2, streamSequence: 5 },
    ],
    ['$JS.ACK.hub.acc.S.C.1.5.9.1700.3.r', { stream: 'S', consumer: 'C', streamSequence: 5 }],
    ['_INBOX.a', undefined],
    [undefined, undefined],
  ])('reads what an older or a newer server says: %s', (reply, info) => {
    if (info === undefined) expect(infoOf(reply)).toBeUndefined()
    else expect(infoOf(reply)).toMatchObject(info)
  })
})

describe('a dead letter', () => {
  const named = {
    ...{ Trace: 't', 'Nats-Msg-Id': 'm-1', 'Nats-Rollup': 'all', 'x-onceward-reason': 'old' },
    'x-onceward-nats-subject': 'older',
  }
  const letter = deadLetterOf(fromNatsMessage(pulled({}, named)))

  test('has the headers of its message without orders to a stream, and an id of its own', () => {
    const { headers } = deadLetterMessage(letter, { subject: 'dead' })
    expect(headers).toEqual(
      expect.arrayContaining([
        ['Trace', 't'],
        ['x-onceward-nats-msg-id', 'm-1'],
        ['x-onceward-nats-subject', 'orders.42.placed'],
        ['x-onceward-reason', 'fatal'],
        ['Nats-Msg-Id', 'billing/ORDERS/7/r-1/0'],
      ]),
    )
    const names = headers.map(([name]) => name)
    expect(names).not.toContain('Nats-Rollup')
    expect(new Set(names).size).toBe(names.length)
  })

  // Red when the reason is not cut: a message near the limit of the stream could never be published.
  test('that is too large goes without the reason', async () => {
    const { api, published, state } = handMadeApi()
    state.publish = async () => {
      if (published.length === 1)
        throw new JetStreamError('message size exceeds maximum allowed', 10054)
      return true
    }
    await createPublisher(api, { subject: 'dead' })(letter)
    expect(published.at(-1)).toEqual({
      subject: 'dead',
      data: letter.delivery.body,
      headers: [['Trace', 't']],
    })
  })

  test.each([
    ['dead', 'dead'],
    ['dead.>', 'dead.orders.42.placed'],
  ])('goes to the first subject of its stream, %s: %s', async (first, subject) => {
    const { api, published, state } = handMadeApi()
    state.stream = { ...state.stream, config: { ...state.stream.config, subjects: [first] } }
    await createPublisher(api, { stream: 'DEAD' })(letter)
    expect(published).toMatchObject([{ subject, stream: 'DEAD' }])
    state.stream = { ...state.stream, config: { ...state.stream.config, subjects: ['a.*'] } }
    await expect(createPublisher(api, { stream: 'DEAD' })(letter)).rejects.toThrow(
      'Give `deadLetter.subject`',
    )
  })
})
