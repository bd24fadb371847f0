import { describe, expect, test } from 'vitest'
import { Clock } from '../../fixtures/clock.ts'
import { silent } from '../../fixtures/inbox.ts'
import { memoryInbox, memoryLeases, toDelivery } from '../../memory/index.ts'
import type { DeadLetter } from '../../model/dead-letter.ts'
import type { Delivery, GuardEvent } from '../../model/delivery.ts'
import { FatalError, RetryableError } from '../../model/errors.ts'
import { type Guard, portOf } from '../../model/guard-port.ts'
import type { Settlement } from '../../model/settlement.ts'
import type { BatchHandler, Handler, OutcomeRecord } from '../../options/options.ts'
import { createBatchGuard, createGuard } from '../guard.ts'

interface Item {
  readonly id: string
  readonly lane?: string
  readonly n?: unknown
}

type Given = Readonly<Record<string, unknown>>
const HEADERS = { 'reply-to': 'quotes' }

const whole = (items: unknown, over: Partial<Delivery> = {}): Delivery =>
  toDelivery({ Records: items }, { headers: HEADERS, messageId: 'm', ...over })
const ids = (...names: string[]): readonly Item[] => names.map((id) => ({ id }))

function setUp(given: Given = {}, run: (event: GuardEvent<Item>) => unknown = () => undefined) {
  const clock = new Clock()
  const ran: string[] = []
  const records: OutcomeRecord[] = []
  const logged: string[] = []
  const line = (_: object, message: string): void => void logged.push(message)
  const inbox = memoryInbox()
  const leases = memoryLeases(clock.runtime)
  const stores = 'inbox' in given ? { leases } : { inbox }
  const options = {
    ...{ consumer: 'uploads', runtime: { ...clock.runtime, random: () => 1 } },
    ...{ logger: { ...silent, warn: line, error: line }, ...stores },
    observe: (record: OutcomeRecord) => void records.push(record),
    split: ({ payload }: { payload: { Records: Item[] } }) => payload.Records,
    eventKey: ({ payload }: { payload: Item }) => payload.id,
    orderingKey: ({ payload }: { payload: Item }) => payload.lane,
    ...given,
  }
  const one = async (event: GuardEvent<Item>): Promise<unknown> => {
    ran.push(event.payload.id)
    return run(event)
  }
  const guard: Guard =
    given['handler'] === 'batch'
      ? createBatchGuard(
          { ...options, handler: undefined } as never,
          (async (events) => {
            for (const event of events) await one(event as GuardEvent<Item>)
          }) as BatchHandler<unknown, unknown>,
        )
      : createGuard(options as never, one as Handler<unknown, never>)
  const process = (delivery: Delivery): Promise<Settlement> => clock.until(guard.process(delivery))
  return { clock, guard, inbox, logged, process, ran, records }
}

const GUARDS: readonly (readonly [string, () => Given])[] = [
  ['a transaction for each event', () => ({})],
  ['one transaction for all events', () => ({ transaction: 'batch' })],
  ['createBatchGuard', () => ({ handler: 'batch' })],
  ['leases alone', () => ({ inbox: undefined, onTakeover: 'retry' })],
]

describe.each(GUARDS)('a delivery that is split, with %s', (name, given) => {
  const isLeased = name === 'leases alone'

  test('is acked when each item is done, and a done item is a duplicate in another delivery', async () => {
    const { guard, process, ran, records } = setUp(given())
    expect(await process(whole(ids('a', 'b')))).toEqual({ kind: 'ack', by: 'processed' })
    expect(await process(whole(ids('b', 'c', 'c'), { messageId: 'n' }))).toEqual({
      ...{ kind: 'ack', by: 'processed' },
    })
    expect(ran).toEqual(['a', 'b', 'c'])
    expect(await process(whole(ids('a', 'b', 'c')))).toEqual({ kind: 'ack', by: 'duplicate' })
    // One record for each event.
    expect(records.length).toBe(8)
    expect(new Set(records.map(({ eventId }) => eventId)).size).toBe(3)
    await guard.close()
  })

  test('is deferred to the earliest due time, and only what failed runs again', async () => {
    const waits: { [id: string]: number } = { b: 9_000, d: 3_000 }
    const { clock, guard, process, ran } = setUp(given(), ({ attempt, payload: { id } }) => {
      const afterMs = waits[id]
      if (afterMs !== undefined && attempt === 1) throw new RetryableError('later', { afterMs })
    })
    const startedAtMs = clock.runtime.now()
    expect(await process(whole(ids('a', 'b', 'c', 'd')))).toMatchObject({
      ...{ kind: 'defer', reason: 'failed', cause: 'handler-failed', until: startedAtMs + 3_000 },
      error: { message: 'later' },
    })
    ran.length = 0
    clock.advance(3_000)
    const again = whole(ids('a', 'b', 'c', 'd'), { redelivered: true })
    expect(await process(again)).toMatchObject({ kind: 'defer', until: startedAtMs + 9_000 })
    expect(ran).toEqual(['d'])
    clock.advance(6_000)
    expect(await process(again)).toMatchObject({ kind: 'ack' })
    expect(ran).toEqual(['d', 'b'])
    await guard.close()
  })

  test('with a poison item: its record has the item, and the others are done', async () => {
    const { guard, inbox, process, ran } = setUp(given(), ({ payload: { id } }) => {
      if (id === 'b') throw new FatalError('no')
    })
    const settlement = await process(whole([...ids('a', 'b', 'c'), { nothing: 1 }]))
    expect(new Set(ran)).toEqual(new Set(['a', 'b', 'c']))
    // Without an inbox nothing records an item, and a dead-letter queue takes whole messages.
    expect(settlement).toMatchObject(
      isLeased ? { kind: 'dead-letter' } : { kind: 'ack', by: 'processed' },
    )
    if (isLeased) return
    const letters = inbox.deadLetters()
    const bodies = letters.map(({ delivery }) => JSON.parse(Buffer.from(delivery.body).toString()))
    expect(bodies.toSorted()).toEqual([{ id: 'b' }, { nothing: 1 }])
    for (const { delivery } of letters) expect(delivery.headers).toMatchObject(HEADERS)
    expect(await process(whole([...ids('a', 'b', 'c'), { nothing: 1 }]))).toMatchObject({
      kind: 'ack',
    })
    await guard.close()
  })

  test('keeps the order of the items of a lane, which stops at the first that is deferred', async () => {
    const { guard, process, ran } = setUp(given(), ({ payload: { id } }) => {
      if (id === 'b') throw new RetryableError('later', { afterMs: 3_000 })
    })
    const items = ['a', 'b', 'c'].map((id) => ({ id, lane: 'lane' }))
    expect(await process(whole([...items, { id: 'd', lane: 'other' }]))).toMatchObject({
      kind: 'defer',
    })
    expect(ran.filter((id) => id !== 'd').toSpliced(2)).toEqual(['a', 'b'])
    expect(ran).not.toContain('c')
    expect(ran).toContain('d')
    await guard.close()
  })
})

describe('the items', () => {
  test('have a body, a position and a message id of their own, and the headers of the message', async () => {
    const events: GuardEvent<Item>[] = []
    const { guard, process } = setUp({}, (event) => events.push(event))
    const source = { broker: 'sqs', queue: 'q', position: 'p' }
    await process(whole([{ id: 'a', n: [1.5, null] }, ...ids('b')], { source }))
    expect(events).toMatchObject([
      { messageId: 'm#0', source: { position: 'p#0' }, headers: HEADERS, key: 'a' },
      { messageId: 'm#1', source: { position: 'p#1' }, payload: { id: 'b' } },
    ])
    expect(events.map(({ body }) => Buffer.from(body).toString())).toEqual([
      '{"id":"a","n":[1.5,null]}',
      '{"id":"b"}',
    ])
    await guard.close()
  })

  test('may be bigints where decode makes them', async () => {
    const seen: unknown[] = []
    const decode = (): unknown => ({ Records: [{ id: 'a', n: 2n ** 64n }] })
    const { guard, process } = setUp({ decode }, ({ payload }) => seen.push(payload))
    await process(whole([]))
    expect(seen).toEqual([{ id: 'a', n: 2n ** 64n }])
    await guard.close()
  })

  test('are ten thousand at most', async () => {
    const { guard, process, ran } = setUp({ transaction: 'batch' })
    const many = (count: number): Delivery =>
      whole(Array.from({ length: count }, (_, n) => ({ id: `${n}` })))
    expect(await process(many(10_001))).toMatchObject({
      ...{ kind: 'dead-letter', reason: 'invalid-payload' },
      error: { message: expect.stringMatching(/10001 items, more than 10000/) },
    })
    expect(await process(many(10_000))).toEqual({ kind: 'ack', by: 'processed' })
    expect(ran.length).toBe(10_000)
    await guard.close()
  })

  test.each([
    ['no array', undefined, /no array of items in this message, but undefined/],
    ['an item that is no JSON', [() => 1], /Item 0 of this message is no JSON \(function\)/],
  ])('that are %s dead-letter the message', async (_, items, why) => {
    const { guard, process } = setUp({ split: () => items })
    expect(await process(whole([]))).toMatchObject({
      ...{ kind: 'dead-letter', reason: 'invalid-payload' },
      error: { message: expect.stringMatching(why) },
    })
    await guard.close()
  })

  test('may be none, and then the message is skipped', async () => {
    const { guard, process } = setUp()
    expect(await process(whole([]))).toEqual({ kind: 'ack', by: 'skipped' })
    await guard.close()
  })

  test('that share a key are warned of', async () => {
    const { guard, logged, process } = setUp({ eventKey: () => 'same', fingerprint: 'none' })
    await process(whole(ids('a', 'b')))
    expect(logged).toEqual([
      expect.stringMatching(/^all items of a message have the same event key/),
    ])
    await guard.close()
  })

  test('call afterCommit each, and one that throws defers the message', async () => {
    const called: unknown[] = []
    const afterCommit = (result: unknown, { key }: GuardEvent<Item>, { duplicate = false }) => {
      called.push([key, result, duplicate])
      if (key === 'b' && !duplicate) throw new Error('down')
    }
    const { guard, process, ran } = setUp({ afterCommit }, ({ payload: { id } }) => id)
    const failed = { kind: 'defer', cause: 'after-commit-failed' }
    expect(await process(whole(ids('a', 'b')))).toMatchObject(failed)
    expect(await process(whole(ids('a', 'b')))).toMatchObject({ kind: 'ack', by: 'duplicate' })
    expect([ran, called.toSorted()]).toEqual([
      ['a', 'b'],
      [
        ['a', 'a', false],
        ['a', 'a', true],
        ['b', 'b', false],
        ['b', 'b', true],
      ],
    ])
    await guard.close()
  })
})

describe('a dead item', () => {
  const fatal = ({ payload: { id } }: GuardEvent<Item>): void => {
    if (id === 'b') throw new FatalError('no')
  }

  test('is published by itself before the delivery is acked, and one that is not defers it', async () => {
    const { clock, guard, process } = setUp({}, fatal)
    const published: DeadLetter[] = []
    let isDown = true
    portOf(guard).registerPublisher(whole([]).source, async (letter) => {
      if (isDown) throw new Error('down')
      published.push(letter)
    })
    expect(await process(whole(ids('a', 'b')))).toMatchObject({
      kind: 'defer',
      cause: 'dead-letter-place-down',
    })
    isDown = false
    clock.advance(60_000)
    expect(await process(whole(ids('a', 'b')))).toMatchObject({ kind: 'ack' })
    expect(await process(whole(ids('a', 'b')))).toMatchObject({ kind: 'ack' })
    expect(published.map(({ delivery: { body } }) => Buffer.from(body).toString())).toEqual([
      '{"id":"b"}',
    ])
    await guard.close()
  })

  test('that is replayed runs as one event', async () => {
    let isMended = false
    const { clock, guard, inbox, process, ran } = setUp({}, (event) => {
      if (!isMended) fatal(event)
    })
    await process(whole(ids('a', 'b')))
    const [letter] = inbox.deadLetters()
    isMended = true
    expect(letter && inbox.replay(letter.ref)).toBe(true)
    await clock.until(expect.poll(() => ran, { interval: 1 }).toEqual(['a', 'b', 'b']))
    expect(inbox.deadLetters()).toEqual([])
    await guard.close()
  })
})

test('a message that could not be split is split when it is replayed', async () => {
  let isMended = false
  const split = ({ payload }: { payload: { Records: Item[] } }): readonly Item[] => {
    if (!isMended) throw new FatalError('not mended yet')
    return payload.Records
  }
  const { clock, guard, inbox, process, ran } = setUp({ split })
  expect(await process(whole([...ids('a', 'b'), {}]))).toMatchObject({ kind: 'dead-letter' })
  isMended = true
  const [letter] = inbox.deadLetters()
  expect(letter && inbox.replay(letter.ref)).toBe(true)
  await clock.until(expect.poll(() => ran.toSorted(), { interval: 1 }).toEqual(['a', 'b']))
  // The item without a key has a record of its own.
  const bodies = inbox.deadLetters().map(({ delivery: { body } }) => Buffer.from(body).toString())
  expect(bodies).toEqual(['{}'])
  await guard.close()
})
