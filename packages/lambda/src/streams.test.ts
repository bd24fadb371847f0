import {
  ConfigurationError,
  createGuard,
  RetryableError,
  StoreUnavailableError,
} from '@onceward/core'
import { memoryInbox, memoryLeases } from '@onceward/core/memory'
import type { DynamoDBRecord, KinesisStreamRecord } from 'aws-lambda'
import { describe, expect, test } from 'vitest'
import { setUp, silent } from './fixtures/billing.ts'
import { contextOf } from './fixtures/events.ts'
import { rawsOf } from './fixtures/replay.ts'
import { readShard } from './fixtures/shard.ts'
import { lambdaDynamoDbStream, lambdaKinesis } from './index.ts'

const SHARD = 'shardId-000000000006'

function kinesisRecord(at: number, body: unknown, lane = `lane-${at}`): KinesisStreamRecord {
  const sequenceNumber = `4959033827149025660869257853857115717509126753${at}`
  return {
    kinesis: {
      ...{ kinesisSchemaVersion: '1.0', partitionKey: lane, sequenceNumber },
      data: Buffer.from(JSON.stringify(body)).toString('base64'),
      approximateArrivalTimestamp: 1545084650.987,
    },
    ...{ eventSource: 'aws:kinesis', eventVersion: '1.0', eventName: 'aws:kinesis:record' },
    ...{ eventID: `${SHARD}:${sequenceNumber}`, awsRegion: 'us-east-2' },
    invokeIdentityArn: 'arn:aws:iam::123456789012:role/lambda-role',
    eventSourceARN: 'arn:aws:kinesis:us-east-2:123456789012:stream/orders',
  }
}

function dynamoRecord(at: number, image: object, item = `item-${at}`): DynamoDBRecord {
  return {
    ...{
      eventID: `c4ca4238a0b923820dcc509a6f75849${at}`,
      eventName: 'INSERT',
      eventVersion: '1.1',
    },
    ...{ eventSource: 'aws:dynamodb', awsRegion: 'us-east-2' },
    dynamodb: {
      Keys: { Id: { S: item }, Sort: { N: '1' } },
      ...{ NewImage: image as never, SequenceNumber: `11100000000000000000${at}` },
      ...{ ApproximateCreationDateTime: 1763805600, SizeBytes: 26 },
      StreamViewType: 'NEW_AND_OLD_IMAGES',
    },
    eventSourceARN: 'arn:aws:dynamodb:us-east-2:123456789012:table/orders/stream/2026',
  }
}

const KINESIS = {
  create: lambdaKinesis,
  record: kinesisRecord,
  sequenceOf: (record: object) => (record as KinesisStreamRecord).kinesis.sequenceNumber,
  given: {},
  keyOf: (record: object) => expect.stringContaining((record as KinesisStreamRecord).eventID),
}
const DYNAMODB = {
  create: lambdaDynamoDbStream,
  record: dynamoRecord,
  sequenceOf: (record: object) => (record as DynamoDBRecord).dynamodb?.SequenceNumber,
  // A handler of the fixture does what the payload says.
  given: { schema: imageOf() },
  keyOf: (record: object) => (record as DynamoDBRecord).eventID,
}

function imageOf(): object {
  const validate = (value: unknown) => ({ value: (value as DynamoDBRecord).dynamodb?.NewImage })
  return { '~standard': { version: 1, vendor: 'test', validate } }
}

/** A guard whose handler fails so many times before it succeeds for the first time. */
function failing(given: object, times: number) {
  const attempts: number[] = []
  const guard = createGuard(
    {
      ...{ consumer: 'billing', inbox: memoryInbox(), logger: silent, retry: { baseMs: 30 } },
      ...given,
    },
    ({ attempt }) => {
      attempts.push(attempt)
      if (attempts.length <= times) throw new Error('not now')
    },
  )
  return { attempts, guard }
}

describe.each([
  ['lambdaKinesis', KINESIS],
  ['lambdaDynamoDbStream', DYNAMODB],
] as const)('%s', (name, { create, given, keyOf, record, sequenceOf }) => {
  // Red when every failure is answered, or only the last: Lambda goes back to the lowest.
  test('answers the first record that is not done, and what was done after it is a duplicate', async () => {
    const { guard, effects } = setUp(given)
    const good = [0, 2, 4].map((at) => record(at, { does: 'done' }))
    const bad = [1, 3].map((at) => record(at, { does: 'fails' }))
    const Records = [good[0], bad[0], good[1], bad[1], good[2]] as object[]
    const handler = create(guard)
    expect(await handler({ Records }, contextOf(30_000))).toEqual({
      batchItemFailures: [{ itemIdentifier: sequenceOf(bad[0] as object) }],
    })
    expect(effects.toSorted()).toEqual(good.map(keyOf))
    const before = effects.length
    await handler({ Records: Records.slice(1) }, contextOf(30_000))
    expect(effects).toHaveLength(before)
    await guard.close()
  })

  test('keeps the order of one key: what follows a failure does not run', async () => {
    const { guard, effects } = setUp(given)
    const Records = [
      record(0, { does: 'fails' }, 'one'),
      record(1, { does: 'done' }, 'one'),
      record(2, { does: 'done' }, 'two'),
    ]
    expect(await create(guard)({ Records })).toEqual({
      batchItemFailures: [{ itemIdentifier: sequenceOf(Records[0] as object) }],
    })
    expect(effects).toEqual([keyOf(Records[2] as object)])
    await guard.close()
  })

  test('counts dead letters as done, or leaves them to the destination if asked', async () => {
    const Records = [record(0, { does: 'fatal' }), record(1, { does: 'done' })]
    const { guard, inbox } = setUp(given)
    expect(await create(guard)({ Records })).toEqual({ batchItemFailures: [] })
    expect(inbox.deadLetters()).toHaveLength(1)
    const other = setUp(given).guard
    const toDestination = create(other, { deadLetter: 'destination' })
    expect((await toDestination({ Records })).batchItemFailures).toHaveLength(1)
    const leased = setUp({
      ...given,
      inbox: undefined,
      leases: memoryLeases(),
      onTakeover: 'retry',
    })
    expect(() => create(leased.guard)).toThrow(/deadLetter.*destination.*without an inbox/)
  })

  // Red when "not due" is answered at once: the retries are spent in milliseconds, and nothing runs the event any more.
  test('an attempt costs one retry of the source, so that the record has its attempts', async () => {
    const { guard, attempts } = failing(given, 4)
    const mapping = { timeoutMs: 5_000, batchSize: 10, maximumRetryAttempts: 4 }
    const records = [record(0, {}, 'one'), record(1, {}, 'one')]
    const read = await readShard<object>(records, create(guard), {
      ...{ mapping, sequenceOf: (each) => sequenceOf(each) as string },
    })
    expect(read).toEqual({ invocations: 5, discarded: [] })
    expect(attempts).toEqual([1, 2, 3, 4, 5, 1])
    await guard.close()
  })

  // Red when each refusal of the store is answered at once: an outage of a second spends the retries of a day.
  test('an outage of the store is waited for within the invocation', async () => {
    const memory = memoryInbox()
    const backAt = Date.now() + 1_200
    const open: typeof memory.open = (registration) =>
      Date.now() < backAt
        ? Promise.reject(new StoreUnavailableError('down'))
        : memory.open(registration)
    const { guard, effects } = setUp({ ...given, inbox: { ...memory, open } })
    const mapping = { timeoutMs: 10_000, batchSize: 10, maximumRetryAttempts: 0 }
    const read = await readShard<object>([record(0, { does: 'done' })], create(guard), {
      ...{ mapping, sequenceOf: (each) => sequenceOf(each) as string },
    })
    expect(read).toEqual({ invocations: 1, discarded: [] })
    expect(effects).toHaveLength(1)
    await guard.close()
  })

  // With the settings of docs/lambda.md. Red without `bisectBatchOnFunctionError`: what follows the record is discarded too.
  test('when the retries are spent, the record alone is discarded', async () => {
    const { effects, guard } = setUp({ ...given, retry: { baseMs: 10, attempts: 20 } })
    const mapping = {
      ...{ timeoutMs: 5_000, batchSize: 10, maximumRetryAttempts: 2 },
      bisectBatchOnFunctionError: true,
    }
    const records = [
      record(0, { does: 'done' }),
      record(1, { does: 'fails' }),
      record(2, { does: 'done' }),
      record(3, { does: 'done' }),
    ]
    const read = await readShard<object>(records, create(guard), {
      ...{ mapping, sequenceOf: (each) => sequenceOf(each) as string },
    })
    expect(read.discarded).toEqual([records[1]])
    expect(effects).toHaveLength(3)
    await guard.close()
  })

  test('an invocation waits no longer than it has time', async () => {
    const { guard } = setUp({ ...given, retry: { baseMs: 60_000 } })
    const startedAt = performance.now()
    const handler = create(guard, { marginMs: 200 })
    const Records = [record(0, { does: 'fails' })]
    expect((await handler({ Records }, contextOf(1_000))).batchItemFailures).toHaveLength(1)
    expect(performance.now() - startedAt).toBeGreaterThan(500)
    expect(performance.now() - startedAt).toBeLessThan(1_000)
    // Outside of Lambda there is no time to wait in.
    expect((await handler({ Records })).batchItemFailures).toHaveLength(1)
    expect(performance.now() - startedAt).toBeLessThan(1_500)
    await guard.close()
  })

  test('throws without partial responses', async () => {
    const { guard } = setUp(given)
    const handler = create(guard, { partialResponses: false })
    const Records = [record(0, { does: 'fails' })]
    await expect(handler({ Records })).rejects.toThrow(RetryableError)
    expect(() => create(guard, { partialResponse: true } as never)).toThrow(/partialResponses/)
  })

  test('takes the records alone, as a pipe of EventBridge sends them', async () => {
    const { guard, effects } = setUp(given)
    const records = [record(0, { does: 'done' })]
    expect(await create(guard)(records)).toEqual({ batchItemFailures: [] })
    expect(effects).toEqual(records.map(keyOf))
  })

  test.each([
    undefined,
    {},
    { Records: {} },
    { Records: [null] },
    [{ eventSource: 'aws:sqs', body: '{}' }],
    { Records: [{ eventSource: 'aws:kinesis', kinesis: {} }] },
    { Records: [{ eventSource: 'aws:dynamodb', dynamodb: {} }] },
  ])('refuses %j', async (event) => {
    const { guard, effects } = setUp(given)
    const invoking = create(guard)(event as never)
    await expect(invoking).rejects.toThrow(ConfigurationError)
    await expect(invoking).rejects.toThrow(`${name} expected`)
    expect(effects).toEqual([])
  })

  test('gives a handler the record as raw, also when its dead letter is replayed', async () => {
    const sent = record(0, { a: 1 })
    const raws = await rawsOf((guard, isEmpty) => create(guard)({ Records: isEmpty ? [] : [sent] }))
    expect(raws).toEqual([sent, sent])
  })
})

test('a record that a pipe has flattened is the same event as that of a mapping', async () => {
  const { guard, effects } = setUp()
  const { kinesis, ...record } = kinesisRecord(0, { does: 'done' })
  const handler = lambdaKinesis(guard)
  await handler({ Records: [{ kinesis, ...record }] })
  await handler([{ ...kinesis, ...record }])
  expect(effects).toHaveLength(1)
})
