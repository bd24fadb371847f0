import { expect, test } from 'vitest'
import { setUp } from '../fixtures/guard.ts'
import { silent } from '../fixtures/inbox.ts'
import { createShift } from '../fixtures/shift.ts'
import { memoryInbox, toDelivery } from '../memory/index.ts'
import { toEpochMs } from '../model/brands.ts'
import { FatalError, RetryableError } from '../model/errors.ts'
import type { Guard } from '../model/guard-port.ts'
import type { OutcomeRecord } from '../options/options.ts'
import { createGuard } from './guard.ts'

test('processes an event once and answers duplicate with the stored result', async () => {
  let runs = 0
  const { guard } = setUp(() => {
    runs += 1
    return { charged: 5 }
  })
  const delivery = toDelivery({ order: 1 })
  expect(await guard.process(delivery)).toEqual({
    kind: 'ack',
    by: 'processed',
    result: { charged: 5 },
  })
  expect(await guard.process(delivery)).toEqual({
    kind: 'ack',
    by: 'duplicate',
    result: { charged: 5 },
  })
  expect(runs).toBe(1)
  await guard.close()
})

test('passes key, attempt, payload and a stable idempotency key to the handler', async () => {
  const seen: unknown[] = []
  const { guard, shift } = setUp((event, { deadlineAt, signal }) => {
    seen.push([event.key, event.attempt, event.payload, event.idempotencyKey])
    expect(deadlineAt).toBeInstanceOf(Date)
    expect(signal.aborted).toBe(false)
    if (event.attempt === 1) throw new Error('not yet')
  })
  const delivery = toDelivery({ order: 1 }, { messageId: 'm-1' })
  await guard.process(delivery)
  shift.forward(3_600_000)
  await guard.process(delivery)
  const [first, second] = seen as [unknown[], unknown[]]
  expect(first.slice(0, 3)).toEqual(['m-1', 1, { order: 1 }])
  expect(second.slice(0, 3)).toEqual(['m-1', 2, { order: 1 }])
  expect(second[3]).toBe(first[3])
  await guard.close()
})

test('trap T3: a failure defers with backoff, and the redelivery runs again', async () => {
  let runs = 0
  const { guard, shift } = setUp(() => {
    runs += 1
    if (runs === 1) throw new Error('boom')
  })
  const delivery = toDelivery({})
  const failed = await guard.process(delivery)
  expect(failed).toMatchObject({ kind: 'defer', reason: 'failed', error: { message: 'boom' } })
  expect(await guard.process(delivery)).toMatchObject({ kind: 'defer', reason: 'not-due' })
  expect(runs).toBe(1)
  shift.forward(10_000)
  expect(await guard.process(delivery)).toEqual({ kind: 'ack', by: 'processed' })
  expect(await guard.process(delivery)).toEqual({ kind: 'ack', by: 'duplicate' })
  expect(runs).toBe(2)
  await guard.close()
})

test('a failing event is dead-lettered after its attempts and stays dead-lettered', async () => {
  let runs = 0
  const { guard, inbox, shift } = setUp(
    () => {
      runs += 1
      throw new RetryableError('always', { afterMs: 10 })
    },
    { retry: { attempts: 3 } },
  )
  const delivery = toDelivery({})
  const kinds: string[] = []
  for (let n = 0; n < 5; n += 1) {
    const settlement = await guard.process(delivery)
    kinds.push('reason' in settlement ? settlement.reason : settlement.kind)
    shift.forward(60_000)
  }
  expect(kinds).toEqual(['failed', 'failed', 'attempts-spent', 'attempts-spent', 'attempts-spent'])
  expect(runs).toBe(3)
  expect(inbox.deadLetters()).toMatchObject([{ reason: 'attempts-spent', attempts: 3 }])
  await guard.close()
})

test('FatalError and errors that isFatal accepts dead-letter the event at once', async () => {
  const { guard } = setUp(
    ({ payload }) => {
      throw payload === 'fatal' ? new FatalError('no') : new TypeError('bug')
    },
    { isFatal: (error) => error instanceof TypeError },
  )
  for (const payload of ['fatal', 'bug']) {
    expect(await guard.process(toDelivery(payload))).toMatchObject({
      kind: 'dead-letter',
      reason: 'fatal',
    })
  }
  await guard.close()
})

test('acceptance A8: the same key with another payload is a conflict and changes nothing', async () => {
  let runs = 0
  const { guard, inbox } = setUp(() => {
    runs += 1
  })
  await guard.process(toDelivery({ cents: 5 }, { messageId: 'm' }))
  const other = toDelivery({ cents: 6 }, { messageId: 'm' })
  expect(await guard.process(other)).toMatchObject({
    kind: 'dead-letter',
    reason: 'fingerprint-mismatch',
  })
  expect(await guard.process(toDelivery({ cents: 5 }, { messageId: 'm' }))).toMatchObject({
    by: 'duplicate',
  })
  expect(runs).toBe(1)
  expect(inbox.deadLetters()).toMatchObject([{ ref: { kind: 'refused' } }])
  await guard.close()
})

test('acceptance A12: duplicates inside a batch run once; a conflicting one is refused', async () => {
  let runs = 0
  const { guard } = setUp(() => {
    runs += 1
  })
  const a = toDelivery({ n: 1 }, { messageId: 'a' })
  const conflicting = toDelivery({ n: 2 }, { messageId: 'a' })
  const settlements = await guard.processBatch([a, a, conflicting, a, toDelivery({})])
  expect(settlements).toMatchObject([
    { by: 'processed' },
    { by: 'duplicate' },
    { kind: 'dead-letter', reason: 'fingerprint-mismatch' },
    { by: 'duplicate' },
    { by: 'processed' },
  ])
  expect(runs).toBe(2)
  await guard.close()
})

test('trap T8: an in-flight duplicate is never acked before the first attempt ended well', async () => {
  const started = Promise.withResolvers<void>()
  const outcome = Promise.withResolvers<void>()
  const { guard } = setUp(
    () => {
      started.resolve()
      return outcome.promise
    },
    { claimWaitMs: 20 },
  )
  const delivery = toDelivery({})
  const first = guard.process(delivery)
  await started.promise
  expect(await guard.process(delivery)).toMatchObject({ kind: 'defer', reason: 'in-progress' })
  outcome.reject(new Error('late failure'))
  expect(await first).toMatchObject({ kind: 'defer', reason: 'failed' })
  await guard.close()
})

test('a second delivery in the same process waits for the first and answers duplicate', async () => {
  const started = Promise.withResolvers<void>()
  const outcome = Promise.withResolvers<number>()
  const { guard } = setUp(
    () => {
      started.resolve()
      return outcome.promise
    },
    { claimWaitMs: 10_000 },
  )
  const delivery = toDelivery({})
  const first = guard.process(delivery)
  await started.promise
  const second = guard.process(delivery)
  outcome.resolve(7)
  expect(await first).toEqual({ kind: 'ack', by: 'processed', result: 7 })
  expect(await second).toEqual({ kind: 'ack', by: 'duplicate', result: 7 })
  await guard.close()
})

test('a lane runs in delivery order and stops at its first failure; other lanes continue', async () => {
  const order: unknown[] = []
  const { runtime } = createShift()
  const { guard } = setUp(
    ({ payload }) => {
      order.push(payload)
      if (payload === 'a2') throw new Error('stop')
    },
    { runtime: { ...runtime, now: () => toEpochMs(0) } },
  )
  const deliveries = ['a1', 'b1', 'a2', 'a3', 'b2'].map((name) =>
    toDelivery(name, { orderingKey: name.slice(0, 1) }),
  )
  const settlements = await guard.processBatch(deliveries)
  expect(settlements.map(({ kind }) => kind)).toEqual(['ack', 'ack', 'defer', 'defer', 'ack'])
  const [, , failed, follower] = settlements
  expect(follower).toMatchObject({ reason: 'not-due' })
  expect(untilOf(follower)).toBe(untilOf(failed))
  expect(order.filter((name) => String(name).startsWith('a'))).toEqual(['a1', 'a2'])
  expect(order.filter((name) => String(name).startsWith('b'))).toEqual(['b1', 'b2'])
  await guard.close()
})

function untilOf(settlement: unknown): number {
  return (settlement as { until: number }).until
}

test('acceptance A11: a message without a key is refused, never acked silently', async () => {
  const { guard, inbox } = setUp(() => undefined)
  const delivery = toDelivery({}, { headers: {} })
  expect(await guard.process(delivery)).toMatchObject({
    kind: 'dead-letter',
    reason: 'missing-event-key',
  })
  expect(inbox.deadLetters()).toHaveLength(1)
  await guard.close()
})

test('a message without a key runs on every delivery under the policy unguarded', async () => {
  let runs = 0
  const { guard } = setUp(
    () => {
      runs += 1
    },
    { onMissingKey: 'unguarded' },
  )
  const delivery = toDelivery({}, { headers: {} })
  expect(await guard.process(delivery)).toEqual({ kind: 'ack', by: 'unguarded' })
  expect(await guard.process(delivery)).toEqual({ kind: 'ack', by: 'unguarded' })
  expect(runs).toBe(2)
  await guard.close()
})

test('skipped deliveries are acked and store nothing', async () => {
  const { guard } = setUp(() => undefined, { skip: ({ payload }) => payload === 'skip' })
  expect(await guard.process(toDelivery('skip'))).toEqual({ kind: 'ack', by: 'skipped' })
  await guard.close()
})

test('acceptance A7: two consumers each have their own effect', async () => {
  const inbox = memoryInbox()
  const runs: string[] = []
  const [billing, mailing] = ['billing', 'mailing'].map((consumer) =>
    createGuard({ consumer, inbox, logger: silent }, () => {
      runs.push(consumer)
    }),
  ) as [Guard, Guard]
  const delivery = toDelivery({})
  await Promise.all([billing.process(delivery), mailing.process(delivery)])
  expect(runs.toSorted()).toEqual(['billing', 'mailing'])
  await Promise.all([billing.close(), mailing.close()])
})

test('reports every delivery to observe, with a hashed key', async () => {
  const records: OutcomeRecord[] = []
  const { guard } = setUp(() => undefined, { observe: (record) => records.push(record) })
  const delivery = toDelivery({}, { messageId: 'secret-key' })
  await guard.processBatch([delivery, delivery])
  expect(records.map(({ settlement }) => settlement)).toMatchObject([
    { by: 'processed' },
    { by: 'duplicate' },
  ])
  expect(records[0]).toMatchObject({ consumer: 'billing', attempt: 1 })
  expect(records[0]?.keyHash).toMatch(/^[0-9a-f]+$/)
  expect(JSON.stringify(records)).not.toContain('secret-key')
  await guard.close()
})

test('after close no event is claimed', async () => {
  const { guard } = setUp(() => undefined)
  await guard.close()
  expect(await guard.process(toDelivery({}))).toEqual({
    kind: 'abandon',
    reason: 'closing',
    cause: 'draining',
  })
})

test('a replayed dead letter runs without the broker, and later copies find its state', async () => {
  let isBroken = true
  const { guard, inbox } = setUp(() => {
    if (isBroken) throw new FatalError('bug')
  })
  const delivery = toDelivery({})
  await guard.process(delivery)
  isBroken = false
  const [letter] = inbox.deadLetters()
  if (letter === undefined) throw new Error('no dead letter')
  expect(inbox.replay(letter.ref)).toBe(true)
  await expect
    .poll(() => guard.process(delivery), { timeout: 15_000 })
    .toMatchObject({ kind: 'ack', by: 'duplicate' })
  await guard.close()
}, 20_000)
