import { deadLetterOf } from '@onceward/testing/adapter'
import { describe, expect, test } from 'vitest'
import type { Field } from './client.ts'
import { deadLetterMessage, originalFields } from './dead-letter.ts'
import { entriesOf, fromStreamEntry, streamMessage, toDelivery } from './delivery.ts'

const ID = '1700000000000-3'
const SETTINGS = { bodyField: 'payload', orderingField: 'lane' }
type Pairs = readonly (readonly [string, string | Uint8Array])[]

const bytes = (text: string): Uint8Array => Buffer.from(text)
const fieldsOf = (...pairs: Pairs): readonly Field[] =>
  pairs.map(([name, value]) => [bytes(name), Buffer.from(value)])
const deliver = (...pairs: Pairs) =>
  toDelivery({ stream: 'orders', id: ID, fields: fieldsOf(...pairs) }, SETTINGS)
const plain = (fields: readonly Field[]) =>
  fields.map(([name, value]) => [String(name), Buffer.from(value).toString('latin1')])
const ODD = Buffer.from([0xff, 0x00])

describe('the fields of an entry', () => {
  test('the body field is the body, and all others are headers in lower case, the last of a repeated one', () => {
    const delivery = deliver(['Trace', '1'], ['payload', '{"a":1}'], ['trace', '2'], ['lane', 'x'])
    expect(String(delivery.body)).toBe('{"a":1}')
    expect(delivery.headers).toEqual({ trace: '2', lane: 'x' })
    expect(delivery).toMatchObject({
      source: { broker: 'redis-streams', queue: 'orders', position: ID },
      ...{
        messageId: ID,
        orderingKey: 'x',
        redelivered: true,
        producedAt: new Date(1700000000000),
      },
    })
  })

  test('a single field is the body, whatever its name and its bytes', () => {
    const delivery = deliver(['data', ODD])
    expect(Buffer.from(delivery.body)).toEqual(ODD)
    expect(delivery.headers).toEqual({})
  })

  test('several fields without the body field are a JSON object, and headers', () => {
    const delivery = deliver(['id', '7'], ['__proto__', 'x'], ['id', '8'])
    expect(String(delivery.body)).toBe('{"id":"8","__proto__":"x"}')
    expect(delivery.headers).toMatchObject({ id: '8' })
  })

  test('a value that is not UTF-8 is no header, and two names that are not do not become one', () => {
    const entry = { stream: 'orders', id: ID }
    const names = [Buffer.from([0xff]), Buffer.from([0xfe])]
    const fields = names.map((name): Field => [name, bytes('1')])
    expect(deliver(['a', ODD], ['payload', '1']).headers).toEqual({})
    expect(Object.keys(toDelivery({ ...entry, fields }, SETTINGS).headers)).toHaveLength(2)
  })

  // Red when only the text is compared: an empty lane is no lane to the guard.
  test('two ordering keys that are not the same bytes are two lanes, an empty one included', () => {
    const lanes = ['', ODD, Buffer.from([0xfe])].map(
      (lane) => deliver(['lane', lane], ['payload', '']).orderingKey,
    )
    expect(new Set(lanes).size).toBe(3)
    expect(lanes.every((lane) => lane !== undefined && lane !== '')).toBe(true)
    expect(deliver(['payload', '']).orderingKey).toBeUndefined()
  })

  test('only an entry that is known to be delivered for the first time counts as such', () => {
    const entry = { stream: 'orders', id: ID, fields: fieldsOf(['payload', '']) }
    const counted = (deliveryCount?: number) =>
      toDelivery({ ...entry, ...(deliveryCount && { deliveryCount }) }, SETTINGS).redelivered
    expect([counted(1), counted(2), counted()]).toEqual([false, true, true])
  })
})

test.each<[string, unknown]>([
  ['ioredis', [['orders', [[ID, ['a', '1', 'a', '2']]]]]],
  ['ioredis with RESP 3', ['orders', [[ID, ['a', '1', 'a', '2']]]]],
  ['ioredis, bytes', [[bytes('orders'), [[bytes(ID), ['a', '1', 'a', '2'].map(bytes)]]]]],
  ['a map of RESP 3', { orders: [[ID, ['a', '1', 'a', '2']]] }],
])('an answer of XREADGROUP by %s has its entries', (_, reply) => {
  const entries = entriesOf(reply)
  expect(entries.map(({ stream, id, fields }) => [stream, id, plain(fields)])).toEqual([
    [
      'orders',
      ID,
      [
        ['a', '1'],
        ['a', '2'],
      ],
    ],
  ])
})

test('an answer of node-redis has its entries, and one that was deleted meanwhile is none', () => {
  const messages = [
    { id: ID, message: { a: '1' } },
    { id: '5-0', message: null },
  ]
  expect(entriesOf([{ name: 'orders', messages }])).toEqual([
    { stream: 'orders', id: ID, fields: fieldsOf(['a', '1']) },
  ])
  expect([entriesOf(null), entriesOf(undefined)]).toEqual([[], []])
})

describe('a stored delivery', () => {
  test.each<[string, Pairs]>([
    [
      'with a body field',
      [
        ['b', ODD],
        ['payload', 'x'],
        ['b', '2'],
        ['B', ''],
      ],
    ],
    ['with a single field', [['data', ODD]]],
    [
      'with all fields as its body',
      [
        ['id', '1'],
        ['id', ODD],
      ],
    ],
  ])('%s has its entry again, byte for byte', (_, pairs) => {
    const { body, headers, source, envelope } = deliver(...pairs)
    const stored = { body, headers, source, envelope }
    expect(streamMessage(stored)).toEqual({ stream: 'orders', id: ID, fields: fieldsOf(...pairs) })
    expect(streamMessage({ ...stored, envelope: bytes('?') })).toBeUndefined()
    expect(streamMessage({ ...stored, source: { broker: 'sqs', queue: 'q' } })).toBeUndefined()
  })
})

describe('a dead letter', () => {
  const pairs = [
    ['b', ODD],
    ['payload', 'x'],
    ['X-Onceward-Reason', 'old'],
  ] as const

  test('has the fields of its message in their order and the reason, and none of an earlier letter', () => {
    const fields = plain(deadLetterMessage(deadLetterOf(deliver(...pairs)), 'payload'))
    expect(fields.slice(0, 3)).toEqual([
      ['b', ODD.toString('latin1')],
      ['payload', 'x'],
      ['x-onceward-reason', 'fatal'],
    ])
  })

  // Red when the reasons count as fields of the message: the letter of a single field would be read as JSON.
  test('that is read again has the body of its message', () => {
    const letter = deadLetterMessage(deadLetterOf(deliver(['data', '7'])), 'payload')
    expect(String(toDelivery({ stream: 'dead', id: ID, fields: letter }, SETTINGS).body)).toBe('7')
  })

  test('of one item has the item as its body, and all other fields', () => {
    const whole = deliver(['b', '1'], ['payload', '[1,2]'])
    const item = { ...whole, body: bytes('2'), source: { ...whole.source, position: `${ID}#1` } }
    expect(plain(originalFields(item, 'payload'))).toEqual([
      ['b', '1'],
      ['payload', '2'],
    ])
    const ofFields = deliver(['a', '1'], ['b', '[1,2]'])
    const itemOfFields = { ...item, raw: ofFields.raw }
    expect(plain(originalFields(itemOfFields, 'payload'))).toEqual([['payload', '2']])
  })

  test('of which only texts are left has these', () => {
    const { body, headers, source } = deliver(['b', '1'], ['payload', 'x'])
    expect(plain(originalFields({ body, headers, source }, 'data'))).toEqual([
      ['b', '1'],
      ['data', 'x'],
    ])
  })
})

test('an entry that a loop of one settles itself counts as redelivered', () => {
  const delivery = fromStreamEntry([ID, ['a', '1', 'data', '2']], 'orders', { bodyField: 'data' })
  expect(delivery).toMatchObject({ headers: { a: '1' }, redelivered: true })
  expect(String(delivery.body)).toBe('2')
})
