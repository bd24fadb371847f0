import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { Clock } from '../../fixtures/clock.ts'
import { silent } from '../../fixtures/inbox.ts'
import { createShift } from '../../fixtures/shift.ts'
import { memoryInbox, memoryLeases, toDelivery } from '../../memory/index.ts'
import { header } from '../../messages/resolvers.ts'
import type { Delivery, GuardEvent } from '../../model/delivery.ts'
import { FatalError } from '../../model/errors.ts'
import { type Guard, portOf } from '../../model/guard-port.ts'
import type { OutcomeRecord, Route } from '../../options/options.ts'
import { createBatchGuard, createGuard } from '../guard.ts'

type Given = Readonly<Record<string, unknown>>
type Table = Readonly<Record<string, Partial<Route<unknown, unknown>>>>

const typed = (type: string | undefined, payload: unknown, over: Partial<Delivery> = {}) =>
  toDelivery(payload, {
    headers: {
      'idempotency-key': String(Reflect.get(Object(payload), 'id') ?? payload),
      ...(type === undefined ? {} : { 'x-type': type }),
    },
    ...over,
  })

/** A guard that notes what ran, by type. */
function setUp(on: Table, given: Given = {}) {
  const shift = createShift()
  const ran: (readonly unknown[])[] = []
  const records: OutcomeRecord[] = []
  const lines: (readonly unknown[])[] = []
  const note =
    (level: string) =>
    (...line: unknown[]) =>
      void lines.push([level, ...line])
  const inbox = memoryInbox()
  const routes = Object.entries(on).map(([type, route]) => {
    const handler = (event: GuardEvent<unknown>): unknown => {
      ran.push([type, event.payload])
      return (route.handler as ((event: GuardEvent<unknown>) => unknown) | undefined)?.(event)
    }
    return [type, { ...route, handler }]
  })
  const guard: Guard = createGuard({
    ...{ consumer: 'orders', inbox, type: header('X-Type'), runtime: shift.runtime },
    logger: { ...silent, warn: note('warn'), error: note('error'), debug: note('debug') },
    observe: (record: OutcomeRecord) => void records.push(record),
    ...given,
    on: Object.fromEntries(routes),
  } as never)
  return { guard, inbox, lines, ran, records, shift }
}

const placed = z.object({ id: z.string(), cents: z.number().default(5) })
const shipped = z.object({ shipment: z.string() })
const ORDERS: Table = {
  'order.placed': { schema: placed },
  'order.shipped': {
    schema: shipped,
    eventKey: ({ payload }) => (payload as { shipment: string }).shipment,
  },
}

describe('a guard with `on`', () => {
  test('the type of a message chooses schema, key and handler', async () => {
    const { guard, ran, records } = setUp(ORDERS)
    const [one, two] = [
      typed('order.placed', { id: 'a' }),
      typed('order.shipped', { shipment: 's' }),
    ]
    const settlements = await guard.processBatch([one, two, one])
    expect(settlements.map((each) => Reflect.get(each, 'by'))).toEqual([
      ...['processed', 'processed', 'duplicate'],
    ])
    expect(ran).toEqual([
      ['order.placed', { id: 'a', cents: 5 }],
      ['order.shipped', { shipment: 's' }],
    ])
    expect(records.map(({ type }) => type)).toEqual([
      ...['order.placed', 'order.shipped', 'order.placed'],
    ])
    await guard.close()
  })

  test('the type is no part of the identity: the same key of another type is the same event', async () => {
    const { guard, ran } = setUp({ one: {}, two: {} })
    await guard.process(typed('one', { id: 'a' }))
    expect(await guard.process(typed('two', { id: 'a' }))).toMatchObject({ by: 'duplicate' })
    expect(ran).toHaveLength(1)
    await guard.close()
  })

  test('the handler, and `afterCommit`, see the type in the event', async () => {
    const seen: unknown[] = []
    const handler = ({ type }: GuardEvent<unknown>) => void seen.push(type)
    const afterCommit = (_: unknown, { type }: GuardEvent<unknown>) => void seen.push(type)
    const { guard } = setUp({ one: { handler } }, { afterCommit })
    await guard.process(typed('one', { id: 'a' }))
    expect(seen).toEqual(['one', 'one'])
    await guard.close()
  })

  test('a payload that does not fit the schema of its type is refused with the type in the report', async () => {
    const { guard, records } = setUp(ORDERS)
    const bad = typed('order.placed', { id: 5 })
    expect(await guard.process(bad)).toMatchObject({ reason: 'invalid-payload' })
    expect(records).toMatchObject([{ type: 'order.placed' }])
    await guard.close()
  })

  test('with leases alone, and without a key, the handler of the type runs', async () => {
    const leases = { inbox: undefined, leases: memoryLeases(), onTakeover: 'retry' }
    const { guard, ran } = setUp({ one: {} }, { ...leases, onMissingKey: 'unguarded' })
    expect(await guard.process(typed('one', { id: 'a' }))).toMatchObject({ by: 'processed' })
    const keyless = toDelivery('b', { headers: { 'x-type': 'one' } })
    expect(await guard.process(keyless)).toMatchObject({ by: 'unguarded' })
    expect(ran).toHaveLength(2)
    await guard.close()
  })

  test('a payload field may be the type, also as a number', async () => {
    const type = ({ payload }: { payload: { kind: number } }) => payload.kind
    const { guard, ran } = setUp({ 7: {} }, { type: [header('none'), type] })
    await guard.process(typed(undefined, { id: 'a', kind: 7 }))
    expect(ran).toMatchObject([['7', { kind: 7 }]])
    await guard.close()
  })

  // Red when the resolvers after the schema see what the resolver of the type has seen.
  test('the key of a type is read after its schema', async () => {
    const schema = z.object({ id: z.string().transform((id) => `shop-${id}`) })
    const keys: unknown[] = []
    const { guard } = setUp(
      {
        one: {
          schema,
          eventKey: ({ payload }) => (payload as { id: string }).id,
          handler: ({ key }: GuardEvent<unknown>) => void keys.push(key),
        },
      },
      { type: () => 'one' },
    )
    await guard.process(typed(undefined, { id: 'a' }))
    expect(keys).toEqual(['shop-a'])
    await guard.close()
  })

  test('the items of a split message have types of their own', async () => {
    const { guard, ran } = setUp(
      { a: {}, b: {} },
      {
        split: ({ payload }: { payload: readonly unknown[] }) => payload,
        eventKey: ({ payload }: { payload: { id: string } }) => payload.id,
        type: ({ payload }: { payload: { kind: string } }) => payload.kind,
      },
    )
    const items = [
      { id: '1', kind: 'a' },
      { id: '2', kind: 'b' },
    ]
    expect(await guard.process(toDelivery(items))).toMatchObject({ by: 'processed' })
    expect(ran.map(([type]) => type)).toEqual(['a', 'b'])
    await guard.close()
  })
})

describe('options of one type', () => {
  test('`retry` counts the attempts of its type alone', async () => {
    const handler = (): never => {
      throw new Error('why')
    }
    const { guard, shift } = setUp(
      { once: { handler, retry: { attempts: 1 } }, often: { handler } },
      { retry: { attempts: 3, baseMs: 10 } },
    )
    expect(await guard.process(typed('once', 'a'))).toMatchObject({ reason: 'attempts-spent' })
    const often = typed('often', 'b')
    for (let run = 1; run <= 2; run++) {
      expect(await guard.process(often)).toMatchObject({ kind: 'defer', reason: 'failed' })
      shift.forward(60_000)
    }
    expect(await guard.process(often)).toMatchObject({ reason: 'attempts-spent' })
    await guard.close()
  })

  // Red when the inbox knows the number of the guard alone: a crash is counted there.
  test('`retry` counts more attempts than the guard, crashes included', async () => {
    let fails = true
    const handler = (): void => {
      if (fails) throw new Error('why')
    }
    const { guard, ran, shift } = setUp(
      { often: { handler, retry: { attempts: 5 } } },
      { retry: { attempts: 2, baseMs: 10 } },
    )
    for (let run = 1; run <= 4; run++) {
      expect(await guard.process(typed('often', 'b'))).toMatchObject({ reason: 'failed' })
      shift.forward(60_000)
    }
    fails = false
    expect(await guard.process(typed('often', 'b'))).toMatchObject({ by: 'processed' })
    expect(ran).toHaveLength(5)
    await guard.close()
  })

  test('`deadlineMs` bounds its type alone, and with leases alone too', async () => {
    const slow = async (): Promise<void> => {
      await new Promise(() => undefined)
    }
    const leases = { inbox: undefined, leases: memoryLeases(), onTakeover: 'retry' }
    for (const stores of [{}, leases]) {
      const clock = new Clock()
      const { guard } = setUp(
        { slow: { handler: slow, deadlineMs: 40 }, quick: {} },
        { ...stores, runtime: clock.runtime, deadlineMs: 30_000 },
      )
      const settling = guard.process(typed('slow', 'a'))
      expect(await clock.until(settling)).toMatchObject({
        ...{ kind: 'defer', reason: 'failed' },
        error: { message: expect.stringContaining('deadline of 40 ms') },
      })
      expect(await clock.until(guard.process(typed('quick', 'b')))).toMatchObject({ kind: 'ack' })
      await clock.until(guard.close())
    }
  })

  test('adapters see the longest deadline and the most attempts', async () => {
    const { guard } = setUp(
      { one: { deadlineMs: 90_000, retry: { maxMs: 600_000 } }, two: { retry: { attempts: 20 } } },
      { retry: { attempts: 5 } },
    )
    expect(portOf(guard).settings).toMatchObject({
      ...{ deadlineMs: 90_000, maxAttempts: 20, retryMaxMs: 600_000 },
    })
    await guard.close()
  })
})

describe('a type that is not in `on`', () => {
  const UNKNOWN = [typed('order.lost', 'a'), typed(undefined, 'b')] as const

  test('is dead-lettered, whole and by name; a message without a type is, too', async () => {
    const { guard, inbox, lines, ran, records } = setUp(ORDERS)
    for (const delivery of UNKNOWN) {
      expect(await guard.process(delivery)).toMatchObject({
        ...{ kind: 'dead-letter', reason: 'unknown-type' },
        error: { code: 'ONCEWARD_UNKNOWN_TYPE' },
      })
    }
    expect(inbox.deadLetters()).toMatchObject([
      { reason: 'unknown-type', key: 'a', error: expect.stringContaining('"order.lost"') },
      { reason: 'unknown-type', error: expect.stringContaining('has no type') },
    ])
    expect(ran).toEqual([])
    expect(records.map(({ type }) => type)).toEqual(['_OTHER', '_OTHER'])
    expect(lines).toMatchObject([
      ['error', { type: '_OTHER', reason: 'unknown-type' }, expect.any(String)],
      ['error', { type: '_OTHER', reason: 'unknown-type' }, expect.any(String)],
    ])
    await guard.close()
  })

  test('is acknowledged with one warning for each type, and counted', async () => {
    const { guard, inbox, lines, records } = setUp(ORDERS, { unknown: 'ack' })
    for (const delivery of [...UNKNOWN, ...UNKNOWN]) {
      expect(await guard.process(delivery)).toEqual({ kind: 'ack', by: 'skipped' })
    }
    const warnings = lines.filter(([level]) => level === 'warn')
    expect(warnings.map(([, fields]) => Reflect.get(Object(fields), 'type'))).toEqual([
      ...['order.lost', undefined],
    ])
    expect(records.map(({ type }) => type)).toEqual(Array(4).fill('_OTHER'))
    expect(inbox.deadLetters()).toEqual([])
    await guard.close()
  })

  test('is acknowledged in silence', async () => {
    const { guard, lines } = setUp(ORDERS, { unknown: 'skip' })
    for (const delivery of UNKNOWN) {
      expect(await guard.process(delivery)).toEqual({ kind: 'ack', by: 'skipped' })
    }
    expect(lines.filter(([level]) => level !== 'debug')).toEqual([])
    await guard.close()
  })

  test('is none that every object has', async () => {
    const { guard } = setUp(ORDERS)
    const delivery = typed('constructor', 'a')
    expect(await guard.process(delivery)).toMatchObject({ reason: 'unknown-type' })
    await guard.close()
  })

  test('a dead letter of it runs after a rollout that knows the type', async () => {
    const { guard, inbox, ran } = setUp(ORDERS)
    await guard.process(typed('order.lost', { id: 'a' }))
    await guard.close()
    const [letter] = inbox.deadLetters()
    if (letter === undefined) throw new Error('the message was not dead-lettered')
    expect(inbox.replay(letter.ref)).toBe(true)
    const next = setUp({ ...ORDERS, 'order.lost': {} }, { inbox })
    await expect.poll(() => next.ran).toEqual([])
    await portOf(next.guard).open()
    await expect.poll(() => next.ran, { timeout: 10_000 }).toEqual([['order.lost', { id: 'a' }]])
    expect(ran).toEqual([])
    await next.guard.close()
  })

  // The identity of a stored event stays, so its run fails before a handler is called.
  test.each(['dead-letter', 'ack', 'skip'] as const)(
    'an event that waits for its retry is loud after a rollout without its type, with %j',
    async (unknown) => {
      const handler = (): never => {
        throw new Error('later')
      }
      const { guard, inbox } = setUp({ old: { handler } }, { retry: { baseMs: 1, attempts: 1 } })
      expect(await guard.process(typed('old', 'a'))).toMatchObject({ reason: 'attempts-spent' })
      await guard.close()
      const [letter] = inbox.deadLetters()
      if (letter?.ref.kind !== 'event') throw new Error('the event was not dead-lettered')
      inbox.replay(letter.ref)
      const next = setUp(ORDERS, { inbox, unknown })
      await portOf(next.guard).open()
      const dead = () => inbox.deadLetters().map(({ reason }) => reason)
      const reason = unknown === 'dead-letter' ? 'unknown-type' : 'fatal'
      await expect.poll(dead, { timeout: 10_000 }).toEqual([reason])
      expect(next.lines.filter(([level]) => level === 'error')).toHaveLength(1)
      expect(next.ran).toEqual([])
      await next.guard.close()
    },
  )
})

describe('createBatchGuard with `on`', () => {
  const numbered = (types: string) =>
    [...types].map((type, n) => typed(type, n, { orderingKey: 'lane' }))

  function batchSetUp(fails: (events: readonly GuardEvent<unknown>[]) => void = () => undefined) {
    const calls: string[] = []
    const inbox = memoryInbox()
    const handler = async (events: readonly GuardEvent<unknown>[]) => {
      fails(events)
      calls.push(events.map(({ payload, type }) => `${type}${payload}`).join(' '))
    }
    const guard = createBatchGuard({
      ...{ consumer: 'orders', inbox, logger: silent, type: header('x-type') },
      on: { a: { handler }, b: { handler } },
    })
    return { calls, guard, inbox }
  }

  test('neighbours of one type are one call, in the order of delivery', async () => {
    const { calls, guard } = batchSetUp()
    const settlements = await guard.processBatch(numbered('aababb'))
    expect(settlements.every(({ kind }) => kind === 'ack')).toBe(true)
    expect(calls).toEqual(['a0 a1', 'b2', 'a3', 'b4 b5'])
    await guard.close()
  })

  test('one event that fails is dead alone, whatever its type', async () => {
    const { guard, inbox } = batchSetUp((events) => {
      if (events.some(({ payload }) => payload === 2)) throw new FatalError('poison')
    })
    const settlements = await guard.processBatch(numbered('aababb'))
    expect(settlements.map(({ kind }) => kind)).toEqual([
      ...['ack', 'ack', 'dead-letter', 'ack', 'ack', 'ack'],
    ])
    expect(inbox.deadLetters()).toMatchObject([{ reason: 'fatal' }])
    await guard.close()
  })

  test('a handler that returns a query which was not run fails', async () => {
    const inbox = memoryInbox()
    const handler = (async () => () => undefined) as never
    const guard = createBatchGuard({
      ...{ consumer: 'orders', inbox, logger: silent, type: header('x-type') },
      on: { a: { handler } },
    })
    expect((await guard.processBatch(numbered('a')))[0]).toMatchObject({ reason: 'failed' })
    await guard.close()
  })
})

describe('the options of a guard with `on` are refused', () => {
  const common = { consumer: 'orders', inbox: memoryInbox() }
  const handler = (): void => undefined

  test.each([
    [{ on: {} }, /Expected `on` to be an object with a handler for each type/],
    [{ on: { a: handler } }, /Expected `on\["a"\]` to be an object with a `handler`, got function/],
    [{ on: { a: {} } }, /on\["a"\]: Expected `handler` to be a function, got nothing/],
    [
      { on: { a: { handler, shema: 1 } } },
      /on\["a"\] of createGuard does not know "shema", did you mean "schema"\?/,
    ],
    [
      { on: { a: { handler, deadlineMs: 0 } } },
      /on\["a"\]: Expected `deadlineMs` to be an integer/,
    ],
    [{ on: { a: { handler, retry: { attempts: 0 } } } }, /on\["a"\]: Expected `retry.attempts`/],
    [{ on: { a: { handler } }, schema: placed }, /Expected no `schema` beside `on`/],
    [{ on: { a: { handler } }, type: 'x-type' }, /Expected `type` to be .*`header\('x-type'\)`/],
    [{ on: { a: { handler } }, unknown: 'drop' }, /Expected `unknown` to be one of/],
    [{ type: header('x-type') }, /Expected no `type` without `on`/],
    [{ unknown: 'ack' }, /Expected no `unknown` without `on`/],
  ])('%j', (given, message) => {
    expect(() => createGuard({ ...common, ...given } as never)).toThrow(message)
  })

  test('with a handler beside `on`, and without either', () => {
    const on = { a: { handler } }
    for (const create of [createGuard, createBatchGuard as unknown as typeof createGuard]) {
      expect(() => create({ ...common, on } as never, handler)).toThrow(
        `Expected no second argument of ${create.name} beside \`on\`, got function.`,
      )
      expect(() => create(common as never)).toThrow(/or give `on` a handler for each type\./)
    }
  })
})
