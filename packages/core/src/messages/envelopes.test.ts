import { describe, expect, test } from 'vitest'
import { resolveOptions } from '../guard/resolve-options.ts'
import { memoryInbox } from '../memory/index.ts'
import { toDelivery } from '../memory/to-delivery.ts'
import type { Delivery } from '../model/delivery.ts'
import { ConfigurationError, RetryableError } from '../model/errors.ts'
import type { InboxGuardOptions } from '../options/options.ts'
import { type Identified, identify } from '../receive/identify.ts'
import { unwrapCloudEvent } from './cloud-event.ts'
import { unwrapConfluent } from './confluent.ts'
import { debezium, debeziumKey } from './debezium.ts'
import { type S3Pointer, unwrapMassTransit, unwrapS3Pointer } from './envelopes.ts'
import { s3Key } from './s3-key.ts'

type Given = Partial<InboxGuardOptions<unknown, undefined>>

const run = async (delivery: Delivery, given: Given): Promise<Identified> =>
  identify(delivery, resolveOptions({ consumer: 'billing', inbox: memoryInbox(), ...given }))

const sent = (payload: unknown, more: Partial<Delivery> = {}): Delivery =>
  toDelivery(payload, { headers: {}, ...more })
const bytesOf = (body: Uint8Array, more: Partial<Delivery> = {}): Delivery => ({
  ...sent(null, more),
  body,
})
const textOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString()
const order = { orderId: 'o-1', cents: 500 }

/** The key and the fingerprint, which decide between a duplicate and a conflict. */
async function identityOf(
  delivery: Delivery,
  given: Given,
): Promise<{ readonly key: string; readonly fingerprint: bigint }> {
  const identified = await run(delivery, given)
  if (identified.kind !== 'identified') throw new Error(`It is ${identified.kind}.`)
  const { key, fingerprint } = identified.event
  return { key, fingerprint }
}

describe('unwrapMassTransit()', () => {
  const messageId = '18560000-5d0b-0015-5a2b-08dcf7d0a1b2'
  const envelope = {
    ...{ messageId, conversationId: '18560000-0000', sourceAddress: 'rabbitmq://host/shop' },
    ...{ messageType: ['urn:message:Shop:OrderPlaced'], message: order },
    ...{ sentTime: '2026-11-22T10:00:00.1Z', headers: {}, host: { machineName: 'a' } },
  }
  const decode = unwrapMassTransit()

  test('gives the message, under the id of the envelope', async () => {
    const identified = await run(sent(envelope), { decode })
    expect(identified).toMatchObject({ payload: order, event: { key: messageId } })
  })

  // Red when the whole body is compared: a retry of the producer is then a conflict and dead.
  test('takes a copy with another time and host for the same event', async () => {
    const copy = { ...envelope, sentTime: '2026-11-22T10:05:00Z', host: { machineName: 'b' } }
    const given = { decode }
    expect(await identityOf(sent(copy), given)).toEqual(await identityOf(sent(envelope), given))
    const other = { ...envelope, message: { ...order, cents: 1 } }
    expect(await identityOf(sent(other), given)).not.toEqual(
      await identityOf(sent(envelope), given),
    )
  })

  test('leaves the choice of the key to its user', async () => {
    const eventKey = (): string => 'mine'
    expect(await identityOf(sent(envelope), { decode, eventKey })).toMatchObject({ key: 'mine' })
  })

  test('reads a message without an envelope as it is', async () => {
    const raw = sent(order, { headers: { messageid: messageId } })
    expect(await run(raw, { decode })).toMatchObject({ payload: order, event: { key: messageId } })
    const own = sent({ ...order, messageType: 'of its own', message: 1, messageId: 'x' })
    expect(await run(own, { decode })).toMatchObject({ reason: 'missing-event-key' })
  })

  test('hands the message to a decoder of the user with its numbers as they were written', async () => {
    const text = JSON.stringify({ ...envelope, message: 'here' })
    const body = Buffer.from(text.replace('"here"', '{"id":1234567890123456781}'))
    const own = unwrapMassTransit(textOf)
    expect(await run(bytesOf(body), { decode: own })).toMatchObject({
      payload: '{"id":1234567890123456781}',
    })
  })
})

describe('debezium()', () => {
  const id = '4d47e190-0402-4048-bc2c-89dd54343cdc'
  const decode = debezium()

  test.each([
    ['as it is', id],
    ['as a JSON text', JSON.stringify(id)],
    ['with a schema', JSON.stringify({ schema: { type: 'string', optional: false }, payload: id })],
  ])('finds the id of the outbox event router, written %s', async (_name, header) => {
    const record = sent(order, { headers: { id: header } })
    expect(await run(record, { decode })).toMatchObject({ payload: order, event: { key: id } })
    expect(await identityOf(record, { eventKey: debeziumKey() })).toMatchObject({ key: id })
  })

  test.each(['"', '{"payload":', '"a" b', '{}'])(
    'takes a header that is %s for the id',
    async (header) => {
      const record = sent(order, { headers: { id: header } })
      expect(await identityOf(record, { decode })).toMatchObject({ key: header })
    },
  )

  test.each([
    ['JSON', order],
    ['JSON in a text', JSON.stringify(order)],
    ['with its schema', { schema: { type: 'string' }, payload: JSON.stringify(order) }],
  ])('finds the event of the outbox table as %s', async (_name, value) => {
    const record = sent(value, { headers: { id } })
    expect(await run(record, { decode })).toMatchObject({ payload: order })
  })

  const source = {
    ...{ version: '2.7.0.Final', connector: 'postgresql', name: 'shop', db: 'shop' },
    ...{ ts_ms: 1763805600000, snapshot: 'false', schema: 'public', table: 'orders' },
    ...{ sequence: '["24023119","24023128"]', txId: 555, lsn: 24023128, xmin: null },
  }
  const change = { before: null, after: { id: 1, cents: 5 }, source, op: 'c', ts_ms: 1763805600500 }
  const changed = (more: object, of: Partial<Delivery> = {}): Delivery =>
    sent({ ...change, ...more }, { orderingKey: '{"id":1}', ...of })

  test('gives a change of a row whole', async () => {
    expect(await run(changed({}), { decode })).toMatchObject({ payload: change })
    const wrapped = sent({ schema: {}, payload: change }, { orderingKey: '{"id":1}' })
    expect(await run(wrapped, { decode })).toMatchObject({ payload: change })
    expect(await identityOf(wrapped, { decode })).toEqual(await identityOf(changed({}), { decode }))
  })

  // Red when the time of reading or the version of the connector is compared: a restart makes conflicts.
  test('takes a part of the log that is read again for the same events', async () => {
    const again = changed({
      ...{ ts_ms: 1, ts_us: 2, transaction: { id: '555' } },
      source: { ...source, version: '3.0.0.Final', sequence: '["1","24023128"]' },
    })
    expect(await identityOf(again, { decode })).toEqual(await identityOf(changed({}), { decode }))
    const schema = { '~standard': { version: 1, vendor: 'x', validate: () => ({ value: 0 }) } }
    const given = { decode, schema } as never
    expect(await identityOf(again, given)).toEqual(await identityOf(changed({}), given))
  })

  test.each([
    ['another position', { source: { ...source, lsn: 24023129 } }, {}],
    ['another table', { source: { ...source, table: 'lines' } }, {}],
    ['another database', { source: { ...source, name: 'other' } }, {}],
    ['another operation', { op: 'd' }, {}],
    ['another row of the same statement', {}, { orderingKey: '{"id":2}' }],
  ])('takes %s for another event', async (_name, more, of) => {
    const { key } = await identityOf(changed({}), { decode })
    expect((await identityOf(changed(more, of), { decode })).key).not.toBe(key)
  })

  test('compares the row: another one at the same position is a conflict', async () => {
    const first = await identityOf(changed({}), { decode })
    const other = await identityOf(changed({ after: { id: 1, cents: 6 } }), { decode })
    expect(other.key).toBe(first.key)
    expect(other.fingerprint).not.toBe(first.fingerprint)
  })

  test('tells rows of a table without a primary key apart by what they hold', async () => {
    const keyless = { orderingKey: undefined }
    const first = await identityOf(changed({}, keyless), { decode })
    const other = await identityOf(changed({ after: { id: 2 } }, keyless), { decode })
    expect(other.key).not.toBe(first.key)
  })

  test.each([
    ['mysql', { connector: 'mysql', server_id: 1, file: 'bin.3', pos: 154, row: 0 }, { row: 1 }],
    [
      'sqlserver',
      { change_lsn: '0:1', commit_lsn: '0:2', event_serial_no: 1 },
      { change_lsn: '0:3' },
    ],
    ['oracle', { scn: '2122185', commit_scn: '2122190', rs_id: 'a' }, { scn: '2122186' }],
    ['mongodb', { rs: 'rs0', collection: 'c', ord: 31, ts_ms: 1763805600000 }, { ord: 32 }],
    ['vitess', { keyspace: 'k', shard: '-', vgtid: '[{}]' }, { vgtid: '[{"a":1}]' }],
  ])('knows the position of %s', async (_name, place, next) => {
    const { key } = await identityOf(changed({ source: place }), { decode })
    const other = await identityOf(changed({ source: { ...place, ...next } }), { decode })
    expect(key).toMatch(/^debezium:/)
    expect(other.key).not.toBe(key)
  })

  test('finds no key in a row without its source, which is a dead letter with what to do', async () => {
    expect(await run(sent({ id: 1 }), { decode })).toMatchObject({ reason: 'missing-event-key' })
    expect(await run(changed({ source: {} }), { decode })).toMatchObject({
      reason: 'missing-event-key',
    })
  })

  test('skips tombstones, also beside a skip of the user', async () => {
    const tombstone = bytesOf(new Uint8Array(), { headers: {} })
    expect(await run(tombstone, { decode })).toEqual({ kind: 'skipped' })
    const skip = ({ payload }: { readonly payload: unknown }): boolean => payload === 1
    expect(await run(tombstone, { decode, skip })).toEqual({ kind: 'skipped' })
    expect(await run(sent(1, { headers: { id } }), { decode, skip })).toEqual({ kind: 'skipped' })
    expect(await run(sent(2, { headers: { id } }), { decode, skip })).toMatchObject({ payload: 2 })
  })

  test('takes what a decoder of the user makes, also what JSON cannot hold', async () => {
    const avro = debezium(async () => ({ ...change, after: { id: 1n, raw: new Uint8Array(2) } }))
    const record = changed({})
    expect(await run(record, { decode: avro })).toMatchObject({ payload: { after: { id: 1n } } })
    // The bytes differ between copies, so that without a comparable row nothing is compared.
    expect(await identityOf(record, { decode: avro })).toMatchObject({ fingerprint: 0n })
  })
})

describe('unwrapCloudEvent()', () => {
  const attributes = { specversion: '1.0', id: '7', source: '/shop', type: 'placed' }
  const key = 'cloudevent:5:/shop:1:7'
  const decode = unwrapCloudEvent()

  test.each([
    ['Kafka', { ce_specversion: '1.0', ce_id: '7', ce_source: '/shop' }],
    ['HTTP', { 'ce-specversion': '1.0', 'ce-id': '7', 'ce-source': '/shop' }],
    [
      'AMQP',
      { 'cloudEvents:specversion': '1.0', 'cloudEvents:id': '7', 'cloudEvents:source': '/shop' },
    ],
    ['AMQP over JMS', { cloudEvents_id: '7', cloudEvents_source: '/shop' }],
  ])('reads the binary mode of %s', async (_name, headers) => {
    expect(await run(sent(order, { headers }), { decode })).toMatchObject({
      payload: order,
      event: { key },
    })
  })

  test('reads the structured mode, and both modes are one event', async () => {
    const structured = sent({ ...attributes, time: '2026-11-22T10:00:00Z', data: order })
    expect(await run(structured, { decode })).toMatchObject({ payload: order, event: { key } })
    const binary = sent(order, { headers: { ce_id: '7', ce_source: '/shop' } })
    const given = { decode }
    expect(await identityOf(structured, given)).toEqual(await identityOf(binary, given))
  })

  const png = Buffer.from([0x89, 0x50]).toString('base64')
  test.each([
    ['no data', {}, null],
    ['a text', { datacontenttype: 'text/plain', data: 'hello' }, 'hello'],
    ['bytes', { datacontenttype: 'image/png', data_base64: png }, new Uint8Array([0x89, 0x50])],
    ['JSON in Base64', { data_base64: Buffer.from('{"a":1}').toString('base64') }, { a: 1 }],
  ])('gives %s', async (_name, more, payload) => {
    expect(await run(sent({ ...attributes, ...more }), { decode })).toMatchObject({ payload })
  })

  test.each([
    ['JSON', { data: order }, JSON.stringify(order)],
    ['a JSON text', { data: 'a' }, '"a"'],
    ['a text', { datacontenttype: 'text/plain', data: 'hello' }, 'hello'],
    ['Base64', { data_base64: Buffer.from('x').toString('base64') }, 'x'],
    ['nothing', {}, ''],
  ])('hands %s to a decoder of the user as bytes', async (_name, more, payload) => {
    const own = unwrapCloudEvent(textOf)
    expect(await run(sent({ ...attributes, ...more }), { decode: own })).toMatchObject({ payload })
  })
})

describe('unwrapConfluent()', () => {
  const wire = Buffer.from([0, 0, 0, 1, 44, ...Buffer.from('{"a":1}')])
  const eventKey = (): string => 'k'
  const decode = unwrapConfluent(async ({ body, bytes, schemaId }) => ({
    ...{ schemaId, value: JSON.parse(textOf(bytes)) as unknown },
    length: body.byteLength,
  }))

  test('hands the id of the schema and what follows to the registry of the user', async () => {
    expect(await run(bytesOf(wire), { decode, eventKey })).toMatchObject({
      payload: { schemaId: 300, value: { a: 1 }, length: wire.byteLength },
    })
  })

  // Red when only the body is looked at: each record of a serializer that writes headers is dead.
  test('reads the id of the schema in a header, a number or a GUID', async () => {
    const guid = Buffer.from('0102030405060708090a0b0c0d0e0f10', 'hex')
    const of = (header: unknown, text = '{"a":1}'): Delivery =>
      bytesOf(Buffer.from(text), {
        raw: { message: { headers: { __value_schema_id: header } } },
      })
    const schemaId = '01020304-0506-0708-090a-0b0c0d0e0f10'
    const inHeader = Buffer.of(1, ...guid)
    for (const header of [inHeader, [Buffer.of(1), inHeader]]) {
      expect(await run(of(header), { decode, eventKey })).toMatchObject({
        payload: { schemaId, value: { a: 1 }, length: 7 },
      })
    }
    expect(await run(of(Buffer.of(0, 0, 0, 1, 44)), { decode, eventKey })).toMatchObject({
      payload: { schemaId: 300, value: { a: 1 } },
    })
    // The message indexes of Protobuf follow the id, also in the header.
    const indexes = Buffer.of(1, ...guid, ...Buffer.from('{"a"'))
    expect(await run(of(indexes, ':1}'), { decode, eventKey })).toMatchObject({
      payload: { schemaId, value: { a: 1 }, length: 3 },
    })
    for (const header of [undefined, 'text', Buffer.of(1, 2), Buffer.of(2, ...guid)]) {
      expect(await run(of(header), { decode, eventKey })).toMatchObject({
        reason: 'invalid-payload',
      })
    }
  })

  test('hands out a tombstone as null', async () => {
    expect(await run(bytesOf(new Uint8Array()), { decode, eventKey })).toMatchObject({
      payload: null,
    })
  })

  test.each(['{"a":1}', '\0\0\0'])('refuses %j without asking the registry', async (text) => {
    expect(await run(bytesOf(Buffer.from(text)), { decode, eventKey })).toMatchObject({
      reason: 'invalid-payload',
      error: expect.objectContaining({ message: expect.stringMatching(/wire format.*serializer/) }),
    })
  })

  test('retries while the registry cannot answer', async () => {
    const down = unwrapConfluent(() => Promise.reject(new RetryableError('503')))
    expect(await run(bytesOf(wire), { decode: down, eventKey })).toMatchObject({ kind: 'retry' })
    expect(() => unwrapConfluent(undefined as never)).toThrow(ConfigurationError)
  })
})

describe('unwrapS3Pointer()', () => {
  const place = { s3BucketName: 'large', s3Key: '5f9c/1' }
  const pointer = ['software.amazon.payloadoffloading.PayloadS3Pointer', place]
  const headers = { 'idempotency-key': 'k' }

  test.each([
    ['bytes', pointer, new TextEncoder().encode(JSON.stringify(order))],
    ['a text', ['com.amazon.sqs.javamessaging.MessageS3Pointer', place], JSON.stringify(order)],
  ])('reads the object as %s', async (_name, body, found) => {
    const asked: S3Pointer[] = []
    const decode = unwrapS3Pointer(async (of) => {
      asked.push(of)
      return found
    })
    expect(await run(sent(body, { headers }), { decode })).toMatchObject({ payload: order })
    expect(asked).toEqual([{ bucket: 'large', key: '5f9c/1' }])
    const own = unwrapS3Pointer(() => found, textOf)
    expect(await run(sent(body, { headers }), { decode: own })).toMatchObject({
      payload: JSON.stringify(order),
    })
  })

  test('is not asked for a body that is no pointer', async () => {
    const decode = unwrapS3Pointer(() => Promise.reject(new Error('asked')))
    for (const body of [order, ['other', place], { s3BucketName: 'a', s3Key: 'b' }]) {
      expect(await run(sent(body, { headers }), { decode })).toMatchObject({ payload: body })
    }
  })

  test('retries an object that is not there yet, and an answer that is no body', async () => {
    for (const answer of [undefined, { stream: true }]) {
      const decode = unwrapS3Pointer(() => answer as never)
      expect(await run(sent(pointer, { headers }), { decode })).toMatchObject({ kind: 'retry' })
    }
    expect(() => unwrapS3Pointer({} as never)).toThrow(ConfigurationError)
  })
})

describe('s3Key()', () => {
  const eventKey = s3Key()
  const object = { key: 'my+photo%E5%86%99.jpg', size: 1, sequencer: '0055AED6DCD90281E5' }
  const recordOf = (more: object = {}, event: object = {}): object => ({
    ...{ eventSource: 'aws:s3', eventName: 'ObjectCreated:Put', eventTime: '2026-11-22T10:00:00Z' },
    s3: { bucket: { name: 'photos' }, object: { ...object, ...more } },
    ...event,
  })
  const keyOf = async (payload: unknown): Promise<string> =>
    (await identityOf(sent(payload), { eventKey })).key
  const key = 's3:6:photos:15:my photo写.jpg:18:0055AED6DCD90281E5'

  test('is bucket, decoded object key and sequencer, of a record and of a notification of one', async () => {
    expect(await keyOf(recordOf())).toBe(key)
    expect(await keyOf({ Records: [recordOf()] })).toBe(key)
  })

  test('is the same for the event of EventBridge, whose object key is not encoded', async () => {
    const detail = { bucket: { name: 'photos' }, object: { ...object, key: 'my photo写.jpg' } }
    expect(await keyOf(detail)).toBe(key)
  })

  test('is kind, version and time where there is no sequencer', async () => {
    const restored = { eventName: 'ObjectRestore:Completed' }
    const first = await keyOf(recordOf({ sequencer: undefined, versionId: 'v1' }, restored))
    expect(first).toContain('ObjectRestore:Completed')
    const later = { ...restored, eventTime: '2026-11-22T11:00:00Z' }
    expect(await keyOf(recordOf({ sequencer: undefined, versionId: 'v1' }, later))).not.toBe(first)
  })

  test('keeps an object key that is not encoded', async () => {
    expect(await keyOf(recordOf({ key: '100%' }))).toContain(':4:100%:')
  })

  test('is not found in other messages, and a notification of several records is refused', async () => {
    for (const payload of [
      order,
      { Records: [{}] },
      recordOf({ sequencer: undefined }, { eventTime: 1 }),
    ]) {
      expect(await run(sent(payload), { eventKey })).toMatchObject({ reason: 'missing-event-key' })
    }
    expect(await run(sent({ Records: [recordOf(), recordOf()] }), { eventKey })).toMatchObject({
      reason: 'invalid-payload',
      error: expect.objectContaining({ message: expect.stringContaining('`split') }),
    })
  })
})
