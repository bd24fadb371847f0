import {
  ConfigurationError,
  createBatchGuard,
  createGuard,
  type GuardEvent,
  type OutcomeRecord,
  RetryableError,
  StoreUnavailableError,
  unwrapSns,
} from '@onceward/core'
import { memoryInbox, memoryLeases } from '@onceward/core/memory'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { consumer, type Does, setUp, silent } from './fixtures/billing.ts'
import { contextOf, idsOf, sqsRecord } from './fixtures/events.ts'
import { lambdaSqs } from './index.ts'

test('the messages that are not done are answered, and dead letters, duplicates and skipped ones are done', async () => {
  const { guard, inbox, effects } = setUp({
    skip: ({ payload }: { readonly payload: { readonly skip?: boolean } }) => payload.skip === true,
  })
  const handler = lambdaSqs(guard)
  const Records = [
    sqsRecord({ id: 'a' }),
    sqsRecord({ id: 'b', body: { does: 'fails' } }),
    sqsRecord({ id: 'c', body: { does: 'fatal' } }),
    sqsRecord({ id: 'd', body: { skip: true } }),
    sqsRecord({ id: 'e', key: 'a' }),
    sqsRecord({ id: 'f', body: 'no JSON' }),
  ]
  expect(await handler({ Records }, contextOf(30_000))).toEqual({
    batchItemFailures: [{ itemIdentifier: 'b' }],
  })
  expect(effects).toEqual(['a'])
  expect(
    inbox
      .deadLetters()
      .map(({ reason }) => reason)
      .toSorted(),
  ).toEqual(['fatal', 'invalid-payload'])
  expect(idsOf(await handler({ Records }))).toEqual(['b'])
  expect(effects).toEqual(['a'])
  await guard.close()
})

describe('property: a batch', () => {
  const message = fc.record({
    id: fc.nat(8),
    group: fc.option(fc.constantFrom('g1', 'g2', 'g3'), { nil: undefined }),
    does: fc.constantFrom<Does>('done', 'done', 'done', 'fails', 'fatal'),
  })

  test.each(['each', 'batch'] as const)(
    'reports in every group the first message that is not done and all after it, and nothing that is done: %s',
    async (transaction) => {
      await fc.assert(
        fc.asyncProperty(
          fc.array(message, { maxLength: 30 }),
          fc.boolean(),
          async (drawn, isFifo) => {
            const { guard, effects } = setUp({ transaction })
            const Records = drawn.map(({ id, group, does }) => {
              const fifo = isFifo ? { group: group ?? 'g0' } : {}
              // The same id is the same message: same event, same payload, same group.
              const same = drawn.find((other) => other.id === id)
              const body = { does: same?.does ?? does }
              return sqsRecord({
                ...{ id: `m${id}`, body },
                ...(isFifo ? { group: same?.group ?? 'g0' } : fifo),
              })
            })
            const response = await lambdaSqs(guard)({ Records }, contextOf(30_000))
            const reported = idsOf(response)
            expect(new Set(reported).size).toBe(reported.length)
            const stopped = new Set<string>()
            const expected = new Set<string>()
            for (const { attributes, body, messageId } of Records) {
              const group = (attributes as { readonly MessageGroupId?: string }).MessageGroupId
              const isDone = (JSON.parse(body) as { readonly does: Does }).does !== 'fails'
              if (isDone && (group === undefined || !stopped.has(group))) continue
              expected.add(messageId)
              if (group !== undefined) stopped.add(group)
            }
            expect(new Set(reported)).toEqual(expected)
            // In a shared transaction handlers run again after a rollback.
            if (transaction === 'each') expect(new Set(effects).size).toBe(effects.length)
            await guard.close()
          },
        ),
        { numRuns: 60 },
      )
    },
  )
})

test('a batch guard takes the whole event in one transaction, and a failing message is isolated', async () => {
  const batches: number[] = []
  const guard = createBatchGuard(
    { consumer, inbox: memoryInbox(), logger: silent },
    async (events: readonly GuardEvent<unknown>[]) => {
      batches.push(events.length)
      if (events.some(({ payload }) => (payload as { readonly bad?: boolean }).bad)) {
        throw new Error('not now')
      }
    },
  )
  const Records = Array.from({ length: 10 }, (_, at) =>
    sqsRecord({ id: `m${at}`, body: { bad: at === 4 } }),
  )
  expect(idsOf(await lambdaSqs(guard)({ Records }))).toEqual(['m4'])
  expect(batches[0]).toBe(10)
  await guard.close()
})

test('an event of ten thousand messages is run in order of its groups, also where the guard defines the lanes', async () => {
  for (const given of [
    {},
    {
      orderingKey: ({ payload }: { readonly payload: { readonly n: number } }) =>
        String(payload.n % 7),
    },
  ]) {
    const { guard, effects } = setUp(given)
    const Records = Array.from({ length: 10_000 }, (_, n) =>
      sqsRecord({ id: `m${n}`, body: { n } }),
    )
    expect(await lambdaSqs(guard)({ Records })).toEqual({ batchItemFailures: [] })
    expect(effects).toHaveLength(10_000)
    await guard.close()
  }
})

describe('an event of another source is refused before anything runs', () => {
  test.each([
    undefined,
    null,
    'text',
    {},
    { Records: {} },
    { Records: [null] },
    { Records: [{ messageId: 'a', body: '{}' }] },
    { Records: [sqsRecord(), { eventSource: 'aws:kinesis' }] },
    { Records: [{ EventSource: 'aws:sns', Sns: {} }] },
    { records: { 'orders-0': [] } },
  ])('%j', async (event) => {
    const { guard, effects } = setUp()
    const invoking = lambdaSqs(guard)(event as never, contextOf(3_000))
    await expect(invoking).rejects.toThrow(ConfigurationError)
    await expect(invoking).rejects.toThrow(
      /lambdaSqs expected .* Check the trigger.*A middleware that parses records/,
    )
    expect(effects).toEqual([])
  })
})

test('a failing message without an id fails the function, because it cannot be answered', async () => {
  const { guard } = setUp()
  const Records = [
    sqsRecord({ id: 'a' }),
    { ...sqsRecord({ body: { does: 'fails' } }), messageId: '' },
  ]
  await expect(lambdaSqs(guard)({ Records })).rejects.toThrow(
    /^1 of 2 messages are not done.*defer, failed/,
  )
})

test('without partial responses the function throws until everything is done', async () => {
  const { guard, effects } = setUp()
  const handler = lambdaSqs(guard, { partialResponses: false })
  const good = sqsRecord({ id: 'a' })
  const bad = sqsRecord({ id: 'b', body: { does: 'fails' } })
  await expect(handler({ Records: [good, bad] })).rejects.toThrow(RetryableError)
  expect(await handler({ Records: [good] })).toEqual({ batchItemFailures: [] })
  expect(effects).toEqual(['a'])
})

describe('dead letters', () => {
  test('are left to the redrive policy if asked, and always without an inbox', async () => {
    const leased = { inbox: undefined, leases: memoryLeases(), onTakeover: 'retry' }
    for (const given of [{}, leased]) {
      const { guard } = setUp(given)
      const handler = lambdaSqs(guard, { deadLetter: 'redrive' })
      const Records = [sqsRecord({ id: 'a' }), sqsRecord({ id: 'b', body: { does: 'fatal' } })]
      expect(idsOf(await handler({ Records }))).toEqual(['b'])
    }
    expect(() => lambdaSqs(setUp(leased).guard)).toThrow(/deadLetter.*redrive.*without an inbox/)
  })

  // Red when a message is answered as done whose record does not hold all of it, or is kept from its redrive policy.
  test.each([
    [undefined, { kind: 'defer', cause: 'not-stored' }],
    ['redrive', { kind: 'dead-letter', reason: 'fatal' }],
  ] as const)(
    'that the inbox has not stored whole come again: %s',
    async (deadLetter, expected) => {
      const memory = memoryInbox()
      const isWhole = async () => false
      const open = async (...given: Parameters<typeof memory.open>) =>
        Object.assign(await memory.open(...given), { isWhole })
      const settlements: unknown[] = []
      const observe = (record: OutcomeRecord) => void settlements.push(record.settlement)
      const { guard } = setUp({ inbox: { open }, observe })
      const Records = [sqsRecord({ id: 'a', body: { does: 'fatal' } })]
      expect(idsOf(await lambdaSqs(guard, { deadLetter })({ Records }))).toEqual(['a'])
      expect(settlements).toMatchObject([expected])
    },
  )
})

test('a store that is down makes every message come again, and one that is misconfigured fails the function', async () => {
  const failing = (error: Error) => setUp({ inbox: { open: () => Promise.reject(error) } }).guard
  const Records = [sqsRecord({ id: 'a' }), sqsRecord({ id: 'b' })]
  const down = lambdaSqs(failing(new StoreUnavailableError('down')))
  expect(idsOf(await down({ Records }))).toEqual(['a', 'b'])
  const wrong = lambdaSqs(failing(new ConfigurationError('run migrate')))
  await expect(wrong({ Records })).rejects.toThrow('run migrate')
})

test('a message of an SNS topic has its key, and a handler reads the message of the AWS SDK in raw', async () => {
  const events: GuardEvent<unknown>[] = []
  const guard = createGuard(
    { consumer, inbox: memoryInbox(), logger: silent, decode: unwrapSns() },
    async (event) => void events.push(event),
  )
  const body = {
    ...{ Type: 'Notification', MessageId: 'sns-1', TopicArn: 'arn:aws:sns:r:1:t' },
    Message: '{"orderId":"o-1"}',
  }
  const record = { ...sqsRecord({ id: 'a', body }), messageAttributes: {} }
  const again = { ...sqsRecord({ id: 'b', body }), messageAttributes: {} }
  expect(await lambdaSqs(guard)({ Records: [record, again] })).toEqual({ batchItemFailures: [] })
  expect(events).toMatchObject([
    {
      key: 'sns-1',
      payload: { orderId: 'o-1' },
      raw: {
        MessageId: 'a',
        ReceiptHandle: 'handle-a',
        Attributes: { ApproximateReceiveCount: '1' },
      },
    },
  ])
})

test('a pipe of EventBridge sends the records alone', async () => {
  const { guard, effects } = setUp()
  const records = [sqsRecord({ id: 'a' }), sqsRecord({ id: 'b', body: { does: 'fails' } })]
  expect(idsOf(await lambdaSqs(guard)(records, contextOf(30_000)))).toEqual(['b'])
  expect(effects).toEqual(['a'])
  await guard.close()
})
