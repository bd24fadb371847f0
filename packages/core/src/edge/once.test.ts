import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { silent } from '../fixtures/inbox.ts'
import { createShift } from '../fixtures/shift.ts'
import { createBatchGuard, createGuard } from '../guard/guard.ts'
import { memoryInbox, memoryLeases, toDelivery } from '../memory/index.ts'
import type { DecodedDelivery } from '../model/delivery.ts'
import { ConflictError, FatalError, InProgressError, InvalidPayloadError } from '../model/errors.ts'
import { type OnceCall, once } from './once.ts'

const STORES = {
  'an inbox': () => ({ inbox: memoryInbox() }),
  'an inbox and leases': () => ({ inbox: memoryInbox(), leases: memoryLeases() }),
  'leases alone': () => ({ leases: memoryLeases(), onTakeover: 'retry' }),
}
const shift = createShift()
const common = { consumer: 'reports', logger: silent, runtime: shift.runtime } as const

describe.each(Object.entries(STORES))('once, with %s', (_, stores) => {
  function setUp(run: (payload: unknown) => unknown) {
    const ran: unknown[] = []
    const given = stores()
    const handler = ({ payload }: { payload: unknown }): unknown => {
      ran.push(payload)
      return run(payload)
    }
    return { given, ran, guard: createGuard({ ...common, ...given } as never, handler) }
  }

  test('the first call runs the handler, and later ones get the same answer, each a copy', async () => {
    const { guard, ran } = setUp(async () => ({ rows: 3, none: undefined, id: 2n ** 60n }))
    const call: OnceCall<unknown> = { key: 'k', payload: { day: 1 } }
    const answers = [await once(guard, call), await once(guard, call), await once(guard, call)]
    expect(answers).toStrictEqual(Array(3).fill({ rows: 3, id: 2n ** 60n }))
    expect(answers[1]).not.toBe(answers[2])
    expect(ran).toEqual([{ day: 1 }])
    expect(await once(guard, { ...call, key: 'other' })).toMatchObject({ rows: 3 })
    expect(await once(guard, { ...call, tenant: 'shop' })).toMatchObject({ rows: 3 })
    expect(ran).toHaveLength(3)
    await guard.close()
  })

  test('calls beside it wait for the answer of the first', async () => {
    const { promise, resolve } = Promise.withResolvers<string>()
    const { guard, ran } = setUp(() => promise)
    const calls = Array.from({ length: 5 }, () => once(guard, { key: 'k' }))
    await expect.poll(() => ran.length).toBe(1)
    resolve('answer')
    expect(await Promise.all(calls)).toEqual(Array(5).fill('answer'))
    expect(ran).toHaveLength(1)
    await guard.close()
  })

  test('a call that waits too long is told that another one is running', async () => {
    const { promise, resolve } = Promise.withResolvers<string>()
    const { guard, ran } = setUp(() => promise)
    const first = once(guard, { key: 'k' })
    await expect.poll(() => ran.length).toBe(1)
    const second = await once(guard, { key: 'k' }).catch((error: unknown) => error)
    expect(second).toBeInstanceOf(InProgressError)
    expect(second).toMatchObject({ code: 'ONCEWARD_IN_PROGRESS', afterMs: expect.any(Number) })
    resolve('answer')
    expect(await first).toBe('answer')
    await guard.close()
  })

  test('an error of the handler is thrown as it is, and the key is free again', async () => {
    const errors = [new Error('down'), new FatalError('never'), new TypeError('odd')]
    let runs = 0
    const { guard, given } = setUp(() => {
      const error = errors[runs++]
      if (error !== undefined) throw error
      return 'done'
    })
    for (const error of errors) await expect(once(guard, { key: 'k' })).rejects.toBe(error)
    expect(await once(guard, { key: 'k' })).toBe('done')
    if ('inbox' in given) expect(given.inbox.deadLetters()).toEqual([])
    await guard.close()
  })

  test('the key with another payload is a conflict, which nothing records', async () => {
    const { guard, given } = setUp(() => 'done')
    await once(guard, { key: 'k', payload: 1 })
    await expect(once(guard, { key: 'k', payload: 2 })).rejects.toThrow(ConflictError)
    if ('inbox' in given) expect(given.inbox.deadLetters()).toEqual([])
    await guard.close()
  })

  test('a closed guard runs nothing', async () => {
    const { guard, ran } = setUp(() => 'done')
    await guard.close()
    await expect(once(guard, { key: 'k' })).rejects.toThrow('The guard is closed')
    expect(ran).toEqual([])
  })
})

test('the payload is JSON, checked by the schema; what reads messages of brokers is left out', async () => {
  const never = (): never => {
    throw new Error('for messages alone')
  }
  const guard = createGuard(
    {
      ...{ ...common, inbox: memoryInbox(), schema: z.object({ day: z.coerce.date() }) },
      ...{ decode: never, skip: never, split: never, eventKey: never, orderingKey: never },
    },
    ({ payload, key, tenant }) => ({ day: payload.day.toISOString(), key, tenant: `${tenant}` }),
  )
  const day = new Date(0)
  const answer = await once(guard, { key: 'k', tenant: 't', payload: { day } })
  expect(answer).toEqual({ day: day.toISOString(), key: 'k', tenant: 't' })
  const wrong = { day: 'soon' } as never
  await expect(once(guard, { key: 'l', payload: wrong })).rejects.toThrow(InvalidPayloadError)
  await guard.close()
})

test('the option `tenant` finds the tenant of a call without one, and the event of a broker is the same', async () => {
  const tenant = ({ payload }: DecodedDelivery<unknown>): string =>
    (payload as { readonly shop: string }).shop
  const ran: unknown[] = []
  const guard = createGuard({ ...common, inbox: memoryInbox(), tenant }, (event) => {
    ran.push(event.tenant)
    return 'charged'
  })
  const payload = { shop: 'a' }
  const delivery = toDelivery(payload, { headers: { 'idempotency-key': 'k' } })
  expect(await guard.process(delivery)).toMatchObject({ by: 'processed' })
  expect(await once(guard, { key: 'k', payload })).toBe('charged')
  expect(await once(guard, { key: 'k', payload: { shop: 'b' } })).toBe('charged')
  expect(ran).toEqual(['a', 'b'])
  await guard.close()
})

test('an event of a broker that failed waits for its retry, and one that is dead says so', async () => {
  let runs = 0
  const inbox = memoryInbox()
  const guard = createGuard({ ...common, inbox, retry: { baseMs: 60_000 } }, () => {
    runs += 1
    throw runs === 1 ? new Error('later') : new FatalError('never')
  })
  const delivery = toDelivery(null, { headers: { 'idempotency-key': 'k' } })
  await guard.process(delivery)
  await expect(once(guard, { key: 'k' })).rejects.toThrow(InProgressError)
  shift.forward(120_000)
  await expect(once(guard, { key: 'k' })).rejects.toThrow('never')
  await expect(once(guard, { key: 'k' })).rejects.toThrow('The event of this key is dead (fatal).')
  expect(runs).toBe(2)
  await guard.close()
})

test('a guard with `on` runs the handler of the type that the call names, or that the payload has', async () => {
  const guard = createGuard({
    ...{ ...common, inbox: memoryInbox() },
    type: ({ payload }) => payload.kind,
    on: { a: { handler: () => 'by a' }, b: { handler: () => 'by b' } },
    unknown: 'skip',
  })
  expect(await once(guard, { key: '1', type: 'b', payload: {} })).toBe('by b')
  expect(await once(guard, { key: '2', payload: { kind: 'a' } })).toBe('by a')
  await expect(once(guard, { key: '3', payload: { kind: 'c' } })).rejects.toMatchObject({
    code: 'ONCEWARD_UNKNOWN_TYPE',
  })
  await guard.close()
})

test.each([
  [{ key: '' }, 'Expected `key` of once to be a text that is not empty, got an empty one.'],
  [{ key: 5 }, 'Expected `key` of once to be a text that is not empty, got number.'],
  [{ payload: 1 }, 'Expected `key` of once to be a text that is not empty, got undefined.'],
  [{ key: 'k', tenant: 5 }, 'Expected `tenant` of once to be a text'],
  [{ key: 'k', payloat: 5 }, 'once does not know "payloat", did you mean "payload"?'],
  [{ key: 'k', payload: () => 1 }, 'The `payload` of once is a function, which is no JSON.'],
])('refuses %j', async (call, message) => {
  const guard = createGuard({ ...common, inbox: memoryInbox() }, () => undefined)
  await expect(once(guard, call as never)).rejects.toThrow(message)
  await guard.close()
})

test('refuses a guard for batches, and what is no guard', async () => {
  const batch = createBatchGuard({ ...common, inbox: memoryInbox() }, () => undefined)
  await expect(once(batch, { key: 'k' })).rejects.toThrow('Expected a guard made by createGuard')
  await expect(once({} as never, { key: 'k' })).rejects.toThrow('Expected a guard made by')
  await batch.close()
})
