import { ConfigurationError, createGuard, type GuardEvent, RetryableError } from '@onceward/core'
import { memoryInbox } from '@onceward/core/memory'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { consumer, setUp, silent } from './fixtures/billing.ts'
import { contextOf, kafkaRecord, placesOf } from './fixtures/events.ts'
import { lambdaKafka } from './index.ts'

const eventOf = (records: readonly ReturnType<typeof kafkaRecord>[], more: object = {}) => {
  const byPartition = Object.groupBy(records, ({ topic, partition }) => `${topic}-${partition}`)
  const known = byPartition as Record<string, ReturnType<typeof kafkaRecord>[]>
  return { eventSource: 'aws:kafka', bootstrapServers: 'b-1:9092', records: known, ...more }
}

const failing = JSON.stringify({ does: 'fails' })

test('a batch with a record that is not done is sent again as a whole, and the others are duplicates then', async () => {
  const { guard, effects } = setUp()
  const handler = lambdaKafka(guard)
  const good = kafkaRecord({ offset: 1 })
  const invoking = handler(
    eventOf([good, kafkaRecord({ offset: 2, value: failing })]),
    contextOf(9_000),
  )
  await expect(invoking).rejects.toThrow(RetryableError)
  await expect(invoking).rejects.toThrow(/^1 of 2 messages are not done/)
  expect(await handler(eventOf([good]))).toBeUndefined()
  expect(effects).toEqual(['orders-0-1'])
})

test('a record reaches the handler as kafkajs gives it, whichever cluster sent it', async () => {
  for (const eventSource of ['aws:kafka', 'SelfManagedKafka', 'aws:SelfManagedKafka']) {
    const events: GuardEvent<unknown>[] = []
    const guard = createGuard(
      { consumer, inbox: memoryInbox(), logger: silent },
      async (event) => void events.push(event),
    )
    const record = kafkaRecord({ partition: 3, offset: 7, key: 'schön', laneKey: 'o-1' })
    await lambdaKafka(guard)(eventOf([record], { eventSource }))
    expect(events).toMatchObject([
      {
        key: 'schön',
        payload: { a: 1 },
        orderingKey: 'o-1',
        headers: { 'idempotency-key': 'schön' },
        source: { broker: 'kafka', queue: 'orders', position: '3/7' },
        producedAt: new Date(1763805600000),
        raw: {
          ...{ topic: 'orders', partition: 3 },
          message: {
            ...{ offset: '7', timestamp: '1763805600000', key: Buffer.from('o-1') },
            headers: { 'idempotency-key': Buffer.from('schön') },
          },
        },
      },
    ])
  }
})

test('tombstones, keys and headers of any bytes, repeated headers and numbers as text are read', async () => {
  const events: GuardEvent<unknown>[] = []
  const guard = createGuard(
    { consumer, inbox: memoryInbox(), logger: silent },
    async (event) => void events.push(event),
  )
  const odd = {
    ...kafkaRecord({ value: null }),
    ...{ partition: '0', offset: '5', timestamp: -1, key: Buffer.of(0xff).toString('base64') },
    headers: [
      { 'Idempotency-Key': [49] },
      { 'Idempotency-Key': [50] },
      { bin: [-1] },
      { no: 'x' },
      { 'Idempotency-Key': [{ toString: '' }] },
      { 'Idempotency-Key': [300] },
      null,
    ],
  }
  await lambdaKafka(guard)({ records: { 'orders-0': [odd] } })
  expect(events).toMatchObject([
    {
      ...{ key: '2', payload: null, orderingKey: 'base64:/w==', producedAt: undefined },
      headers: { 'idempotency-key': '2' },
      raw: {
        message: {
          value: null,
          headers: { 'Idempotency-Key': [Buffer.from('1'), Buffer.from('2')], bin: Buffer.of(255) },
        },
      },
    },
  ])
})

// Red when the key and the time of a record do not tell it from another one: the second body is lost.
test('two refused records at one offset of a topic that was created again are two dead letters', async () => {
  const inbox = memoryInbox()
  const guard = createGuard(
    { consumer, inbox, logger: silent, eventKey: () => undefined },
    () => {},
  )
  const first = kafkaRecord({ offset: 5, key: 'equal', laneKey: 'o-1' })
  const later = { ...first, timestamp: first.timestamp + 1 }
  const ofOther = kafkaRecord({ offset: 5, key: 'equal', laneKey: 'o-2' })
  for (const record of [first, later, ofOther, first]) await lambdaKafka(guard)(eventOf([record]))
  const letters = inbox.deadLetters().map(({ delivery: { orderingKey, producedAt } }) => ({
    ...{ orderingKey, at: producedAt?.getTime() },
  }))
  expect(letters).toEqual([
    { orderingKey: 'o-1', at: first.timestamp },
    { orderingKey: 'o-1', at: later.timestamp },
    { orderingKey: 'o-2', at: first.timestamp },
  ])
})

test('property: partial responses hold the first record of each partition that is not done, and all after it', async () => {
  const record = fc.record({
    topic: fc.constantFrom('orders', 'refunds'),
    partition: fc.nat(2),
    laneKey: fc.option(fc.constantFrom('x', 'y'), { nil: undefined }),
    fails: fc.constantFrom(false, false, false, true),
  })
  await fc.assert(
    fc.asyncProperty(fc.array(record, { maxLength: 40 }), async (drawn) => {
      const { guard, effects } = setUp()
      const records = drawn.map(({ fails, laneKey, partition, topic }, offset) =>
        kafkaRecord({
          ...{ topic, partition, offset },
          ...(laneKey === undefined ? {} : { laneKey: `${topic}-${partition}-${laneKey}` }),
          ...(fails ? { value: failing } : {}),
        }),
      )
      const handler = lambdaKafka(guard, { partialResponses: true })
      const answered = placesOf(await handler(eventOf(records), contextOf(30_000)))
      const stopped = new Set<string>()
      const expected = records.flatMap(({ offset, partition, topic }, at) => {
        const place = `${topic}-${partition}`
        if (drawn[at]?.fails === true) stopped.add(place)
        return stopped.has(place) ? [`${place}/${offset}`] : []
      })
      expect(answered.toSorted()).toEqual(expected.toSorted())
      expect(new Set(effects).size).toBe(effects.length)
      await guard.close()
    }),
    { numRuns: 60 },
  )
})

describe('an event of another source is refused before anything runs', () => {
  test.each([
    undefined,
    {},
    { Records: [] },
    { records: [] },
    { records: null },
    { records: 5 },
    { records: '' },
    { records: { 'orders-0': {} } },
    { records: { 'orders-0': [null] } },
    { records: { 'orders-0': [kafkaRecord({}), { ...kafkaRecord({}), offset: undefined }] } },
    { records: { 'orders-0': [{ ...kafkaRecord({}), partition: -1 }] } },
  ])('%j', async (event) => {
    const { guard, effects } = setUp()
    await expect(lambdaKafka(guard)(event as never)).rejects.toThrow(ConfigurationError)
    expect(effects).toEqual([])
  })
})
